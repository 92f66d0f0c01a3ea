package cli

import (
	"context"
	"fmt"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/stores"
)

// statsCommand is `linkforge stats verify|rebuild`. It works while servers run.
type statsCommand struct {
	Verify  statsVerify  `cmd:"" help:"Compare rollups with single clicks; exit status 1 if they differ."`
	Rebuild statsRebuild `cmd:"" help:"Rebuild rollups from single clicks."`
}

type (
	statsVerify  struct{}
	statsRebuild struct{}
)

// Run compares.
func (statsVerify) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		differences := 0
		subjects, err := s.Clicks.Verify(ctx, func(d clickstore.Difference) {
			differences++
			what := "in all"
			if !d.Month.IsZero() {
				what = "in " + d.Month.Format("2006-01")
			}
			fmt.Fprintf(io.Out, "%s: %d clicks %s, but the rollups have %d\n", d.SubjectID, d.Clicks, what, d.Counted)
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(io.Out, "%d links and workspaces with clicks, %d differences\n", subjects, differences)
		if differences > 0 {
			return ExitStatus(1)
		}
		return nil
	})
}

// Run rebuilds.
func (statsRebuild) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		subjects, err := s.Clicks.Rebuild(ctx)
		if err == nil {
			fmt.Fprintf(io.Out, "the rollups of %d links and workspaces agree with their clicks\n", subjects)
		}
		return err
	})
}
