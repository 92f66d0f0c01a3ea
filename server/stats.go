package main

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/db"
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
	return withClicks(f, func(counts *click.Store) error {
		differences := 0
		links, err := counts.Verify(ctx, func(d click.Difference) {
			differences++
			fmt.Fprintf(io.out, "%s: %d clicks, of which its total says %d and its quarters of an hour %d\n", d.LinkID, d.Clicks, d.Total, d.Buckets)
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(io.out, "%d links with clicks, %d with other sums\n", links, differences)
		if differences > 0 {
			return errSilent
		}
		return nil
	})
}

// Run rebuilds.
func (statsRebuild) Run(ctx context.Context, f *config.Flags, io stdio) error {
	return withClicks(f, func(counts *click.Store) error {
		links, err := counts.Rebuild(ctx)
		if err == nil {
			fmt.Fprintf(io.out, "%d links with clicks have sums that agree\n", links)
		}
		return err
	})
}

func withClicks(f *config.Flags, work func(*click.Store) error) error {
	return besideServers(f, func(_ config.Config, d *db.DB) error { return work(&click.Store{DB: d, Now: time.Now}) })
}
