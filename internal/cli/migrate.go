package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/migrations"
)

// migrateCommand is `linkforge migrate up|down|status`.
type migrateCommand struct {
	Up     migrateUp     `cmd:"" help:"Apply all pending migrations."`
	Down   migrateDown   `cmd:"" help:"Revert the last migration. Its data is lost."`
	Status migrateStatus `cmd:"" help:"List the migrations and when they were applied."`
}

type (
	migrateUp     struct{}
	migrateDown   struct{}
	migrateStatus struct{}
)

// Run takes the steps.
func (migrateUp) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withDatabase(f, func(d *db.DB) error {
		applied, err := migrate.Up(ctx, d, migrations.Files, time.Now())
		for _, name := range applied {
			fmt.Fprintln(io.Out, "applied", name)
		}
		if err == nil && len(applied) == 0 {
			fmt.Fprintln(io.Out, "up to date")
		}
		return err
	})
}

// Run undoes a step.
func (migrateDown) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withDatabase(f, func(d *db.DB) error {
		undone, err := migrate.Down(ctx, d, migrations.Files)
		if err != nil {
			return err
		}
		if undone == "" {
			fmt.Fprintln(io.Out, "nothing to undo")
			return nil
		}
		fmt.Fprintln(io.Out, "undone", undone)
		return nil
	})
}

// Run lists the steps.
func (migrateStatus) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withDatabase(f, func(d *db.DB) error {
		steps, err := migrate.List(ctx, d, migrations.Files)
		for _, step := range steps {
			when := "pending"
			if !step.AppliedAt.IsZero() {
				when = step.AppliedAt.Format(time.RFC3339)
			}
			fmt.Fprintf(io.Out, "%-24s %s\n", step.Name, when)
		}
		return err
	})
}

// withDatabase opens the configured database for one piece of work. Secrets are not needed for it.
func withDatabase(f *config.Flags, work func(*db.DB) error) error {
	c, err := f.CheckDatabase()
	if err != nil {
		return fmt.Errorf("the configuration is invalid:\n%w", err)
	}
	if c.Embedded() {
		folder, err := stores.OpenDataFolder(c.DataDir)
		if err != nil {
			return err
		}
		defer folder.Close()
	}
	d, err := stores.OpenDatabase(context.Background(), c, 0)
	if err != nil {
		return err
	}
	return errors.Join(work(d), d.Close())
}
