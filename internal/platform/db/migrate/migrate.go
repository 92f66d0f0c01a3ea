// Package migrate changes the schema of a database by the scripts of package migrations, up and
// down, on one node at a time, while other nodes serve requests. The first of them is the base; see
// base.go. It owns the table migrations.
//
// Packages server and cli call it.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	upSuffix   = ".up.sql"
	downSuffix = ".down.sql"
)

// migrationLock is the key of the advisory lock that lets one node migrate at a time: "linkforg" in
// ASCII. onlineLock is that of online migrations, which may take hours and leave migrationLock to
// nodes that start meanwhile.
const (
	migrationLock = 0x6c696e6b666f7267
	onlineLock    = migrationLock + 1
)

// A migration that waits for a table blocks later statements on it. Behind a long statement, such
// as a dump's, it gives up after lockWait and retries after lockPause, for at most maxLockRetry.
// While another node migrates, it tries again after nodePause: a statement that waited would hold
// up CREATE INDEX CONCURRENTLY.
const (
	lockWait     = 500 * time.Millisecond
	lockPause    = 2 * time.Second
	nodePause    = 100 * time.Millisecond
	maxLockRetry = 30 * time.Minute
)

// errMigrating means that another node migrates.
var errMigrating = errors.New("another node is migrating")

// onlineMark is the first line of an online migration, and statementMark separates its statements.
// On PostgreSQL they commit one by one while nodes serve requests. After an interruption all of
// them run again, so each must be idempotent. SQLite runs the file as one transaction.
const (
	onlineMark    = "-- online\n"
	statementMark = "\n-- next\n"
)

// compatibleMark is the first line of a migration after which nodes of the version before continue
// to work; they do so after an online migration, too. Of any other one, they are assumed not to.
const compatibleMark = "-- compatible\n"

// Migration is one migration.
type Migration struct {
	bun.BaseModel `bun:"table:migrations"`

	// Name is the name of the file without its suffix; that of the base ends in @ and its checksum.
	Name string `bun:",pk"`
	// AppliedAt is zero for a pending migration.
	AppliedAt time.Time
}

func (m Migration) isPending() bool { return m.AppliedAt.IsZero() }

// Breaking returns the pending migrations after which nodes of the database's version are not known
// to work, in order. There are none for an empty database.
func Breaking(ctx context.Context, d *db.DB, files fs.FS) (breaking []string, err error) {
	all, err := List(ctx, d, files)
	if err != nil || !slices.ContainsFunc(all, func(m Migration) bool { return !m.isPending() }) {
		return nil, err
	}
	for _, m := range all {
		if !m.isPending() {
			continue
		}
		text, err := script(d, files, m.Name, upSuffix)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(text, compatibleMark) && !strings.HasPrefix(text, onlineMark) {
			breaking = append(breaking, m.Name)
		}
	}
	return breaking, nil
}

// Up applies the pending migrations and returns their names. Concurrent nodes wait for each other.
// A migration and its record are one transaction, which bun's migrator does not guarantee, unless
// it is an online migration.
func Up(ctx context.Context, d *db.DB, files fs.FS, now time.Time) (applied []string, err error) {
	names, err := steps(d, files)
	if err != nil {
		return nil, err
	}
	if d.Kind == db.Postgres {
		if err := pgscope.CheckRoles(db.AsOwner(ctx), d); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		var took bool
		err := retryLocked(db.AsOwner(ctx), d, func(ctx context.Context, tx bun.Tx) (err error) {
			took, err = up(ctx, d, tx, files, Migration{Name: name, AppliedAt: now})
			return err
		})
		if err != nil {
			return applied, fmt.Errorf("migrating to %s: %w", name, err)
		}
		if took {
			applied = append(applied, name)
		}
	}
	return applied, nil
}

// Last returns the migration that Down reverts, or nothing if there is none. It returns ErrBase, as
// Down does.
func Last(ctx context.Context, d *db.DB, files fs.FS) (last string, err error) {
	err = d.Tx(db.AsOwner(ctx), func(ctx context.Context, tx bun.Tx) error {
		if err := lockMigrations(ctx, d, tx); err != nil {
			return err
		}
		last, err = lastOf(ctx, d, tx, files)
		return err
	})
	return last, err
}

func lastOf(ctx context.Context, d *db.DB, tx bun.Tx, files fs.FS) (string, error) {
	recorded, before, err := compareBase(ctx, d, tx, files)
	if err != nil || len(recorded) == 0 {
		return "", err
	}
	last := recorded[len(recorded)-1].Name
	if before || isBase(last) {
		return "", ErrBase
	}
	return last, nil
}

// Down runs the down migration of the last migration and returns its name, or nothing if there is none.
func Down(ctx context.Context, d *db.DB, files fs.FS) (undone string, err error) {
	err = retryLocked(db.AsOwner(ctx), d, func(ctx context.Context, tx bun.Tx) error {
		undone = "" // another may have been faster since the last attempt
		if err := lockMigrations(ctx, d, tx, onlineLock, migrationLock); err != nil {
			return err
		}
		last, err := lastOf(ctx, d, tx, files)
		if err != nil || last == "" {
			return err
		}
		undone = last
		if err := limitLockWait(ctx, d, tx); err != nil {
			return err
		}
		script, err := script(d, files, undone, downSuffix)
		if err != nil {
			return err
		}
		if err := run(ctx, tx, script); err != nil {
			return err
		}
		_, err = tx.NewDelete().Model(&Migration{Name: last}).WherePK().Exec(ctx)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("rolling back: %w", err)
	}
	return undone, nil
}

// List returns all migrations in order, including those of the database alone. If the database is
// of another base, or newer than this version, it returns the error of Up, too.
func List(ctx context.Context, d *db.DB, files fs.FS) (all []Migration, err error) {
	names, err := steps(d, files)
	if err != nil {
		return nil, err
	}
	err = d.Tx(db.AsOwner(ctx), func(ctx context.Context, tx bun.Tx) error {
		exists := true
		err := lockMigrations(ctx, d, tx, migrationLock)
		if errors.Is(err, errMigrating) { // another process may be the first one, and create the table
			err = tx.NewRaw("SELECT to_regclass('migrations') IS NOT NULL").Scan(ctx, &exists)
		}
		if err != nil || !exists {
			return err
		}
		all, _, err = compareBase(ctx, d, tx, files)
		return err
	})
	for i := range all {
		all[i].AppliedAt = all[i].AppliedAt.UTC()
		names = slices.DeleteFunc(names, func(name string) bool { return name == all[i].Name })
	}
	for _, name := range names {
		all = append(all, Migration{Name: name})
	}
	slices.SortFunc(all, func(a, b Migration) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// steps returns the names of the dialect's migrations in order.
func steps(d *db.DB, files fs.FS) ([]string, error) {
	found, err := fs.Glob(files, path.Join(string(d.Kind), "*"+upSuffix))
	for i, file := range found {
		found[i] = strings.TrimSuffix(path.Base(file), upSuffix)
		if isBase(found[i]) {
			sum, err := checksum(files, file)
			if err != nil {
				return nil, err
			}
			found[i] += checksumMark + sum
		}
	}
	return found, err
}

// retryLocked runs step until its tables are free and no other node migrates, or maxLockRetry is
// over.
func retryLocked(ctx context.Context, d *db.DB, step func(ctx context.Context, tx bun.Tx) error) error {
	for deadline := time.Now().Add(maxLockRetry); ; {
		err := d.Tx(ctx, step)
		pause := lockPause
		if errors.Is(err, errMigrating) {
			pause = nodePause
		} else if !db.IsLockTimeout(err) {
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

// limitLockWait bounds the lock wait of the following statements. The wait for another node's
// migration comes before it.
func limitLockWait(ctx context.Context, d *db.DB, tx bun.Tx) error {
	if d.Kind != db.Postgres {
		return nil
	}
	_, err := tx.ExecContext(ctx, "SELECT set_config('lock_timeout', ?, true)",
		strconv.FormatInt(lockWait.Milliseconds(), 10))
	return err
}

func up(ctx context.Context, d *db.DB, tx bun.Tx, files fs.FS, step Migration) (took bool, err error) {
	script, err := script(d, files, step.Name, upSuffix)
	if err != nil {
		return false, err
	}
	if isBase(step.Name) {
		return upBase(ctx, d, tx, files, step, script)
	}
	statements, isOnline := strings.CutPrefix(script, onlineMark)
	lock := int64(migrationLock)
	if isOnline {
		lock = onlineLock
	}
	if err := lockMigrations(ctx, d, tx, lock); err != nil {
		return false, err
	}
	isApplied, err := tx.NewSelect().Model(&step).WherePK().Exists(ctx)
	if err != nil || isApplied {
		return false, err
	}
	if isOnline && d.Kind == db.Postgres {
		err = runOnline(ctx, d, tx, statements)
	} else if err = limitLockWait(ctx, d, tx); err == nil {
		err = run(ctx, tx, script)
	}
	if err != nil {
		return false, err
	}
	_, err = tx.NewInsert().Model(&step).Returning("NULL").Exec(ctx)
	return true, err
}

// resetTimeout bounds the restoring of a session after an online migration.
const resetTimeout = 5 * time.Second

// runOnline runs the statements of an online migration on a second connection. The transaction has
// the lock, and must not have written yet: readers of events and caches wait for the oldest
// transaction that has.
func runOnline(ctx context.Context, d *db.DB, tx bun.Tx, statements string) error {
	if _, err := tx.ExecContext(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
		return err
	}
	if d.DB.DB.Stats().MaxOpenConnections == 1 { // the lock has the only connection
		d.DB.DB.SetMaxOpenConns(2)
		defer d.DB.DB.SetMaxOpenConns(1)
	}
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// No scope does it: an index cannot be created concurrently within a transaction.
	if _, err := conn.Conn.ExecContext(ctx, "SET statement_timeout = 0; SET lock_timeout = 0"); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resetTimeout)
		defer cancel()
		_, _ = conn.Conn.ExecContext(ctx, "RESET statement_timeout; RESET lock_timeout") // scopes have their own
	}()
	invalid, err := invalidIndexes(ctx, conn, statements)
	if err != nil {
		return err
	}
	for _, name := range invalid { // an interrupted migration leaves them, and IF NOT EXISTS accepts them
		if _, err := conn.Conn.ExecContext(ctx, "DROP INDEX CONCURRENTLY IF EXISTS "+name); err != nil {
			return err
		}
	}
	for statement := range strings.SplitSeq(statements, statementMark) {
		if _, err := conn.Conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	invalid, err = invalidIndexes(ctx, conn, statements)
	if err == nil && len(invalid) > 0 {
		err = fmt.Errorf("the indexes %s are invalid: migrate again", strings.Join(invalid, ", "))
	}
	return err
}

// invalidIndexes returns the indexes of a migration that are not complete.
func invalidIndexes(ctx context.Context, d bun.IDB, statements string) (names []string, err error) {
	err = d.NewRaw(`SELECT i.indexrelid::regclass::text FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
		WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace`).Scan(ctx, &names)
	return slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(statements, " "+name+" ") }), err
}

// lockMigrations returns errMigrating if another node migrates, and creates the table of
// migrations. The lock ends with the transaction, so it also works behind a pooler.
func lockMigrations(ctx context.Context, d *db.DB, tx bun.Tx, locks ...int64) error {
	for _, lock := range locks {
		locked := d.Kind == db.SQLite
		if !locked {
			if err := tx.NewRaw("SELECT pg_try_advisory_xact_lock(?)", lock).Scan(ctx, &locked); err != nil {
				return err
			}
		}
		if !locked {
			return errMigrating
		}
	}
	_, err := tx.NewCreateTable().Model((*Migration)(nil)).IfNotExists().Exec(ctx)
	return err
}

// script returns the text of the migration's file.
func script(d *db.DB, files fs.FS, step, suffix string) (string, error) {
	name, _, _ := strings.Cut(step, checksumMark)
	script, err := fs.ReadFile(files, path.Join(string(d.Kind), name+suffix))
	return string(script), err
}

func run(ctx context.Context, tx bun.Tx, script string) error {
	_, err := tx.Tx.ExecContext(ctx, script) // past bun, which would take a ? in the script for a placeholder
	return err
}
