package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// The base creates the whole schema. A change of the schema edits it until the first release, so
// its record has a checksum: a database of another text is refused. The version before the base had
// a script for each change. A database that has all of them, which are listed in the file
// replacedSteps, becomes one of the base by the script adoption.
const (
	base          = "0001_base"
	checksumMark  = "@"
	replacedSteps = "adopted.txt"
	adoption      = "adopt.sql"
	// lastVersion is the last version with a script for each change.
	lastVersion = "35412b6f"
)

// ErrBase means that the base cannot be reverted.
var ErrBase = errors.New("the base schema has no down migration, which would delete all data: restore a backup instead")

// errPending means that the base has not been applied.
var errPending = errors.New("the database lacks the schema of this version: run linkforge migrate up")

func isBase(step string) bool { return step == base || strings.HasPrefix(step, base+checksumMark) }

var comment = regexp.MustCompile(`--.*`)

// checksum returns a checksum of the statements of a file, without comments and white space.
func checksum(files fs.FS, file string) (string, error) {
	script, err := fs.ReadFile(files, file)
	sum := sha256.Sum256([]byte(strings.Join(strings.Fields(comment.ReplaceAllString(string(script), "")), " ")))
	return hex.EncodeToString(sum[:4]), err
}

// Check returns an error unless the database has the schema of this version. Commands, and servers
// that do not migrate, call it.
func Check(ctx context.Context, d *db.DB, files fs.FS) error {
	all, err := List(ctx, d, files)
	if err == nil && slices.ContainsFunc(all, Migration.isPending) {
		err = errPending
	}
	return err
}

// upBase applies the base to an empty database, or adopts one of the version before the base.
func upBase(
	ctx context.Context, d *db.DB, tx bun.Tx, files fs.FS, step Migration, script string,
) (took bool, err error) {
	if err := lockMigrations(ctx, d, tx, onlineLock, migrationLock); err != nil {
		return false, err
	}
	recorded, before, err := compareBase(ctx, d, tx, files)
	if err != nil || len(recorded) > 0 && !before {
		return false, err
	}
	if before {
		adopt, err := fs.ReadFile(files, path.Join(string(d.Kind), adoption))
		if err != nil {
			return false, err
		}
		script = string(adopt)
		if _, err := tx.NewDelete().Model(&recorded).WherePK().Exec(ctx); err != nil {
			return false, err
		}
	}
	if err := limitLockWait(ctx, d, tx); err != nil {
		return false, err
	}
	if err := run(ctx, tx, script); err != nil {
		return false, err
	}
	_, err = tx.NewInsert().Model(&step).Returning("NULL").Exec(ctx)
	return true, err
}

// compareBase returns the records in order, and whether they are those of a database that can be
// adopted. It returns an error if the database is of another base, or newer than this version.
func compareBase(ctx context.Context, d *db.DB, tx bun.Tx, files fs.FS) (recorded []Migration, before bool, err error) {
	if err := tx.NewSelect().Model(&recorded).Order("name").Scan(ctx); err != nil || len(recorded) == 0 {
		return nil, false, err
	}
	names, err := steps(d, files)
	if err != nil || len(names) == 0 {
		return recorded, false, err
	}
	if !isBase(names[0]) || recorded[0].Name == names[0] {
		return recorded, false, refuseNewer(recorded, names)
	}
	if isBase(recorded[0].Name) {
		return recorded, false, fmt.Errorf("the database is of %s, another text of the base schema than %s of this "+
			"version (linkforge migrate status): create the database again, or move its data by archives",
			recorded[0].Name, names[0])
	}
	list, err := fs.ReadFile(files, replacedSteps)
	if err != nil {
		return recorded, false, err
	}
	have := make([]string, len(recorded))
	for i, m := range recorded {
		have[i] = m.Name
	}
	if slices.Sort(have); slices.Equal(have, strings.Fields(string(list))) {
		return recorded, true, nil
	}
	return recorded, false, fmt.Errorf("the database is of an earlier version, whose last migration is %s: run "+
		"linkforge migrate up of version %s, and start this version then", have[len(have)-1], lastVersion)
}

// refuseNewer returns an error if the database has a migration that this version does not have:
// this version neither knows what the schema means by now, nor can it revert it.
func refuseNewer(recorded []Migration, names []string) error {
	for _, m := range slices.Backward(recorded) {
		if !slices.Contains(names, m.Name) {
			return fmt.Errorf("the database is newer than this version: it has the migration %s, and the last one of "+
				"this version is %s (linkforge version, linkforge migrate status): run the version that has migrated "+
				"it, or a later one", m.Name, names[len(names)-1])
		}
	}
	return nil
}
