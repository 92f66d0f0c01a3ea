package db

import (
	"cmp"
	"context"
	"errors"
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
// Behind the migration of another node it retries after nodePause: a statement that waits has a snapshot, for
// which the other node's CREATE INDEX CONCURRENTLY would wait.
const (
	lockWait     = 500 * time.Millisecond
	lockPause    = 2 * time.Second
	nodePause    = 100 * time.Millisecond
	maxLockRetry = 30 * time.Minute
)

// errMigrating means that another node migrates.
var errMigrating = errors.New("another node migrates")

// onlineMark begins an online migration, whose statements are separated by statementMark. On PostgreSQL each
// is its own transaction, or several, while requests go on. A migration that was interrupted is repeated, so its
// statements must allow that.
const (
	onlineMark    = "-- online\n"
	statementMark = "\n-- next\n"
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
// other. A migration and its record are one transaction, which bun's migrator does not guarantee, unless it is
// an online migration.
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
		script, err := d.script(files, undone+downSuffix)
		if err != nil {
			return err
		}
		if err := run(ctx, tx, script); err != nil {
			return err
		}
		_, err = tx.NewDelete().Model(&last[0]).WherePK().Exec(ctx)
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
	err = d.retryLocked(AsOwner(ctx), func(ctx context.Context, tx bun.Tx) error {
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

// retryLocked runs step until its tables are free and no other node migrates, or maxLockRetry is over.
func (d *DB) retryLocked(ctx context.Context, step func(ctx context.Context, tx bun.Tx) error) error {
	for deadline := time.Now().Add(maxLockRetry); ; {
		err := d.Tx(ctx, step)
		pause := lockPause
		if errors.Is(err, errMigrating) {
			pause = nodePause
		} else if pgCode(err) != lockNotAvailable {
			return err
		}
		if time.Now().After(deadline) {
			return err
		}
		if err := poll.Wait(ctx, pause); err != nil {
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
	script, err := d.script(files, step.Name+upSuffix)
	if err != nil {
		return false, err
	}
	if statements, online := strings.CutPrefix(script, onlineMark); online && d.Kind == Postgres {
		return true, d.runOnline(ctx, statements)
	}
	return true, run(ctx, tx, script)
}

// runOnline runs the statements of an online migration on another connection than the one that holds the lock.
func (d *DB) runOnline(ctx context.Context, statements string) error {
	if d.DB.DB.Stats().MaxOpenConnections == 1 {
		d.DB.DB.SetMaxOpenConns(2)
		defer d.DB.DB.SetMaxOpenConns(1)
	}
	if err := d.dropInvalidIndexes(ctx); err != nil {
		return err
	}
	for statement := range strings.SplitSeq(statements, statementMark) {
		if _, err := d.DB.DB.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// dropInvalidIndexes removes what interrupted online migrations have left. IF NOT EXISTS would keep it.
func (d *DB) dropInvalidIndexes(ctx context.Context) error {
	var names []string
	err := d.NewRaw(`SELECT i.indexrelid::regclass::text FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
		WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace`).Scan(ctx, &names)
	for _, name := range names {
		if err == nil {
			_, err = d.DB.DB.ExecContext(ctx, "DROP INDEX CONCURRENTLY "+name)
		}
	}
	return err
}

// lockMigrations returns errMigrating if another node migrates, and creates the table of migrations. The lock
// ends with the transaction, so it also works behind a pooler.
func (d *DB) lockMigrations(ctx context.Context, tx bun.Tx) error {
	if d.Kind == Postgres {
		var locked bool
		err := tx.NewRaw("SELECT pg_try_advisory_xact_lock(?)", int64(migrationLock)).Scan(ctx, &locked)
		if err != nil || !locked {
			return cmp.Or(err, errMigrating)
		}
	}
	_, err := tx.NewCreateTable().Model((*Migration)(nil)).IfNotExists().Exec(ctx)
	return err
}

func (d *DB) script(files fs.FS, name string) (string, error) {
	script, err := fs.ReadFile(files, path.Join(string(d.Kind), name))
	return string(script), err
}

func run(ctx context.Context, tx bun.Tx, script string) error {
	_, err := tx.Tx.ExecContext(ctx, script) // past bun, which would take a ? in the script for a placeholder
	return err
}
