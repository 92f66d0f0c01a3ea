package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/platform/jobs"
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
	migrateUp     struct{ asking }
	migrateDown   struct{ asking }
	migrateStatus struct{ listing }
)

// Run takes the steps. It asks before those that nodes which serve are not known to work with.
func (m migrateUp) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withDatabase(f, func(d *db.DB) error {
		err := stores.CheckAhead(ctx, d, jobs.Pause)
		if ahead, ok := errors.AsType[*stores.AheadError](err); ok {
			fmt.Fprintln(io.Err, ahead)
			err = m.confirm(io, "Migrate all the same?")
		}
		if err != nil {
			return err
		}
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

// Run undoes a step, unless a node serves: no version works after its schema is gone.
func (m migrateDown) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withDatabase(f, func(d *db.DB) error {
		last, err := migrate.Last(ctx, d, migrations.Files)
		if err != nil {
			return err
		}
		if last != "" {
			err = m.mayRevert(ctx, d, io, last)
		}
		if err != nil {
			return err
		}
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

func (m migrateDown) mayRevert(ctx context.Context, d *db.DB, io IO, last string) error {
	if d.Kind == db.Postgres { // the data folder of an embedded instance is locked
		node, err := jobs.Serving(ctx, d, jobs.Pause)
		if err == nil && node != "" {
			err = fmt.Errorf("the node %s serves: stop all nodes first", node)
		}
		if err != nil {
			return err
		}
	}
	return m.confirm(io, "Revert "+last+"? The data of its tables and columns is lost.")
}

// migrationRow is a migration in a list. AppliedAt is null for a pending one.
type migrationRow struct {
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"appliedAt"`
}

// Run lists the steps.
func (m migrateStatus) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withDatabase(f, func(d *db.DB) error {
		steps, err := migrate.List(ctx, d, migrations.Files)
		var rows []migrationRow
		for _, step := range steps {
			row := migrationRow{Name: step.Name}
			if !step.AppliedAt.IsZero() {
				row.AppliedAt = utc(&step.AppliedAt)
			}
			rows = append(rows, row)
		}
		shown := show(io, m.listing, "MIGRATION\tAPPLIED", rows, func(r migrationRow) []string {
			if r.AppliedAt == nil {
				return []string{r.Name, "pending"}
			}
			return []string{r.Name, instant(r.AppliedAt)}
		})
		return errors.Join(err, shown)
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
