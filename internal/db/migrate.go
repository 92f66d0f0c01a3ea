package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/pause"
)

const (
	upSuffix   = ".up.sql"
	downSuffix = ".down.sql"
)

// migrationLock is the key of the advisory lock that lets one node migrate at a time: "linkforg" in
// ASCII.
const migrationLock = 0x6c696e6b666f7267

// A step that waits for a table keeps everybody waiting who comes after it, so one that has to wait
// behind a long statement, a dump's for example, gives way after stepLock, and comes back after
// stepPause: for as long as stepPatience.
const (
	stepLock     = 500 * time.Millisecond
	stepPause    = 2 * time.Second
	stepPatience = 30 * time.Minute
)

// Migration is one step of the schema.
type Migration struct {
	bun.BaseModel `bun:"table:migrations"`

	// Name is the file's, without its ending.
	Name string `bun:",pk"`
	// AppliedAt is when this database took the step; zero when it has not.
	AppliedAt time.Time
}

// Migrate brings the schema up to date and returns the steps it took. Nodes that start at once take
// turns.
//
// A step and the record of it are one transaction, so a process that dies in the middle leaves
// nothing half done. (bun's own migrator records a step outside of its transaction.)
func (d *DB) Migrate(ctx context.Context, files fs.FS, now time.Time) (applied []string, err error) {
	names, err := d.steps(files)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		took, err := d.take(AsOwner(ctx), files, Migration{Name: name, AppliedAt: now})
		if err != nil {
			return applied, fmt.Errorf("migrating to %s: %w", name, err)
		}
		if took {
			applied = append(applied, name)
		}
	}
	return applied, nil
}

// Rollback undoes the last step taken and returns its name, or nothing when there was none.
func (d *DB) Rollback(ctx context.Context, files fs.FS) (undone string, err error) {
	err = d.patiently(AsOwner(ctx), func(ctx context.Context, tx bun.Tx) error {
		undone = "" // another may have been faster since the last attempt
		if err := d.lockMigrations(ctx, tx); err != nil {
			return err
		}
		var last []Migration
		if err := tx.NewSelect().Model(&last).Order("name DESC").Limit(1).Scan(ctx); err != nil || len(last) == 0 {
			return err
		}
		undone = last[0].Name
		if err := d.giveWay(ctx, tx); err != nil {
			return err
		}
		if err := d.run(ctx, tx, files, undone+downSuffix); err != nil {
			return err
		}
		_, err := tx.NewDelete().Model(&last[0]).WherePK().Exec(ctx)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("rolling back: %w", err)
	}
	return undone, nil
}

// Migrations lists every step in order, with when it was taken.
func (d *DB) Migrations(ctx context.Context, files fs.FS) ([]Migration, error) {
	names, err := d.steps(files)
	if err != nil {
		return nil, err
	}
	applied := map[string]time.Time{}
	err = d.Tx(AsOwner(ctx), func(ctx context.Context, tx bun.Tx) error {
		if err := d.lockMigrations(ctx, tx); err != nil {
			return err
		}
		var rows []Migration
		err := tx.NewSelect().Model(&rows).Scan(ctx)
		for _, row := range rows {
			applied[row.Name] = row.AppliedAt.UTC()
		}
		return err
	})
	steps := make([]Migration, 0, len(names))
	for _, name := range names {
		steps = append(steps, Migration{Name: name, AppliedAt: applied[name]})
	}
	return steps, err
}

// steps are the names of the dialect's migrations, in order.
func (d *DB) steps(files fs.FS) ([]string, error) {
	found, err := fs.Glob(files, path.Join(string(d.Kind), "*"+upSuffix))
	for i, file := range found {
		found[i] = strings.TrimSuffix(path.Base(file), upSuffix)
	}
	return found, err
}

func (d *DB) take(ctx context.Context, files fs.FS, step Migration) (took bool, err error) {
	err = d.patiently(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		took, err = d.up(ctx, tx, files, step)
		return err
	})
	return took, err
}

// patiently does a step, in as many attempts as it takes to find its tables free.
func (d *DB) patiently(ctx context.Context, step func(ctx context.Context, tx bun.Tx) error) error {
	for deadline := time.Now().Add(stepPatience); ; {
		err := d.Tx(ctx, step)
		if !isLockTimeout(err) || time.Now().After(deadline) {
			return err
		}
		if err := pause.For(ctx, stepPause); err != nil {
			return err
		}
	}
}

// giveWay has a step's statements from here on end when a table is not free in time. Before, the
// turn of another node is waited for.
func (d *DB) giveWay(ctx context.Context, tx bun.Tx) error {
	if d.Kind != Postgres {
		return nil
	}
	_, err := tx.ExecContext(ctx, "SELECT set_config('lock_timeout', ?, true)", milliseconds(stepLock))
	return err
}

// isLockTimeout says that a statement gave up on a lock: lock_not_available
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
func isLockTimeout(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "55P03"
}

func (d *DB) up(ctx context.Context, tx bun.Tx, files fs.FS, step Migration) (took bool, err error) {
	if err := d.lockMigrations(ctx, tx); err != nil {
		return false, err
	}
	result, err := tx.NewInsert().Model(&step).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx)
	if err != nil {
		return false, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	if err := d.giveWay(ctx, tx); err != nil {
		return false, err
	}
	return true, d.run(ctx, tx, files, step.Name+upSuffix)
}

// lockMigrations waits until no other node migrates, and sees to the table of steps taken. The lock
// ends with the transaction, so it also holds behind a pooler that shares sessions.
func (d *DB) lockMigrations(ctx context.Context, tx bun.Tx) error {
	if d.Kind == Postgres {
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(?)", int64(migrationLock)); err != nil {
			return fmt.Errorf("waiting for another node's migration: %w", err)
		}
	}
	_, err := tx.NewCreateTable().Model((*Migration)(nil)).IfNotExists().Exec(ctx)
	return err
}

func (d *DB) run(ctx context.Context, tx bun.Tx, files fs.FS, name string) error {
	script, err := fs.ReadFile(files, path.Join(string(d.Kind), name))
	if err != nil {
		return err
	}
	_, err = tx.Tx.ExecContext(ctx, string(script)) // past bun, which would take a ? in the script for a placeholder
	return err
}
