package main

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/stats"
)

// statsCommand is `linkforge stats verify|rebuild`. It works beside running servers.
type statsCommand struct {
	Verify  statsVerify  `cmd:"" help:"Compare the sums of clicks with the clicks; exit status 1 when they differ."`
	Rebuild statsRebuild `cmd:"" help:"Make the sums of clicks anew from the clicks."`
}

type (
	statsVerify  struct{}
	statsRebuild struct{}
)

// Run compares.
func (statsVerify) Run(ctx context.Context, f *config.Flags, io stdio) error {
	return withClicks(f, func(counts *stats.Store) error {
		differences := 0
		subjects, err := counts.Verify(ctx, func(d stats.Difference) {
			differences++
			what := "in all"
			if !d.Month.IsZero() {
				what = "in " + d.Month.Format("2006-01")
			}
			fmt.Fprintf(io.out, "%s: %d clicks %s, of which the sums say %d\n", d.SubjectID, d.Clicks, what, d.Sum)
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(io.out, "%d links and workspaces with clicks, %d differences\n", subjects, differences)
		if differences > 0 {
			return errSilent
		}
		return nil
	})
}

// Run rebuilds.
func (statsRebuild) Run(ctx context.Context, f *config.Flags, io stdio) error {
	return withClicks(f, func(counts *stats.Store) error {
		subjects, err := counts.Rebuild(ctx)
		if err == nil {
			fmt.Fprintf(io.out, "%d links and workspaces with clicks have sums that agree\n", subjects)
		}
		return err
	})
}

func withClicks(f *config.Flags, work func(*stats.Store) error) error {
	return besideServers(f, func(c config.Config, d *db.DB) error {
		return work(&stats.Store{DB: d, ClickMonths: c.ClickMonths, QuarterMonths: c.SumMonths, Now: time.Now})
	})
}
