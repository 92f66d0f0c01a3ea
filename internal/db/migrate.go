package db

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/poll"
)

const (
	upSuffix   = ".up.sql"
	downSuffix = ".down.sql"
)

// migrationLock is the key of the advisory lock that lets one node migrate at a time: "linkforg" in
// ASCII.
const migrationLock = 0x6c696e6b666f7267

// A migration that waits for a table blocks later statements on it. Behind a long statement, such
// as a dump's, it gives up after lockWait and retries after lockPause, for at most maxLockRetry.
const (
	lockWait     = 500 * time.Millisecond
	lockPause    = 2 * time.Second
	maxLockRetry = 30 * time.Minute
)

// Migration is one migration.
type Migration struct {
	bun.BaseModel `bun:"table:migrations"`

	// Name is the name of the file without its suffix.
	Name string `bun:",pk"`
	// AppliedAt is zero for a pending migration.
	AppliedAt time.Time
}

// Migrate applies the pending migrations and returns their names. Concurrent nodes wait for each
// other. A migration and its record are one transaction, which bun's migrator does not guarantee.
func (d *DB) Migrate(ctx context.Context, files fs.FS, now time.Time) (applied []string, err error) {
	names, err := d.steps(files)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		took, err := d.apply(AsOwner(ctx), files, Migration{Name: name, AppliedAt: now})
		if err != nil {
			return applied, fmt.Errorf("migrating to %s: %w", name, err)
		}
		if took {
			applied = append(applied, name)
		}
	}
	return applied, nil
}

// Rollback runs the last down migration and returns its name, or nothing if there is none.
func (d *DB) Rollback(ctx context.Context, files fs.FS) (undone string, err error) {
	err = d.retryLocked(AsOwner(ctx), func(ctx context.Context, tx bun.Tx) error {
		undone = "" // another may have been faster since the last attempt
		if err := d.lockMigrations(ctx, tx); err != nil {
			return err
		}
		var last []Migration
		if err := tx.NewSelect().Model(&last).Order("name DESC").Limit(1).Scan(ctx); err != nil || len(last) == 0 {
			return err
		}
		undone = last[0].Name
		if err := d.limitLockWait(ctx, tx); err != nil {
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

// Migrations returns all migrations in order.
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

// steps returns the names of the dialect's migrations in order.
func (d *DB) steps(files fs.FS) ([]string, error) {
	found, err := fs.Glob(files, path.Join(string(d.Kind), "*"+upSuffix))
	for i, file := range found {
		found[i] = strings.TrimSuffix(path.Base(file), upSuffix)
	}
	return found, err
}

func (d *DB) apply(ctx context.Context, files fs.FS, step Migration) (took bool, err error) {
	err = d.retryLocked(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		took, err = d.up(ctx, tx, files, step)
		return err
	})
	return took, err
}

// retryLocked runs step until its tables are free or maxLockRetry is over.
func (d *DB) retryLocked(ctx context.Context, step func(ctx context.Context, tx bun.Tx) error) error {
	for deadline := time.Now().Add(maxLockRetry); ; {
		err := d.Tx(ctx, step)
		if pgCode(err) != lockNotAvailable || time.Now().After(deadline) {
			return err
		}
		if err := poll.Wait(ctx, lockPause); err != nil {
			return err
		}
	}
}

// limitLockWait bounds the lock wait of the following statements. The wait for another node's migration
// comes before it.
func (d *DB) limitLockWait(ctx context.Context, tx bun.Tx) error {
	if d.Kind != Postgres {
		return nil
	}
	_, err := tx.ExecContext(ctx, "SELECT set_config('lock_timeout', ?, true)", milliseconds(lockWait))
	return err
}

func (d *DB) up(ctx context.Context, tx bun.Tx, files fs.FS, step Migration) (took bool, err error) {
	if err := d.lockMigrations(ctx, tx); err != nil {
		return false, err
	}
	n, err := Affected(tx.NewInsert().Model(&step).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx))
	if err != nil || n == 0 {
		return false, err
	}
	if err := d.limitLockWait(ctx, tx); err != nil {
		return false, err
	}
	return true, d.run(ctx, tx, files, step.Name+upSuffix)
}

// lockMigrations waits for migrations of other nodes and creates the table of migrations. The lock
// ends with the transaction, so it also works behind a pooler.
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
