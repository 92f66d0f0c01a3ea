package stores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/route/check"
)

// Checks are the checks of settings by the packages that use them.
var Checks = config.Checks{Redis: redisx.Check, Fallback: check.Fallback}

// DataFolder is the folder of an embedded instance, held by one process: quotas are counted in its
// memory, so a second one would give everything twice.
type DataFolder struct {
	lock *flock.Flock
}

// OpenDataFolder opens a data folder. It refuses one with an interrupted restore, because
// its contents are incomplete.
func OpenDataFolder(dir string) (*DataFolder, error) {
	f, err := LockDataFolder(dir)
	if err != nil {
		return nil, err
	}
	if half, err := Restoring(dir); half || err != nil {
		if half {
			err = fmt.Errorf("a restore into the data folder %s was interrupted: run linkforge restore again", dir)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func LockDataFolder(dir string) (*DataFolder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	if !held {
		return nil, fmt.Errorf("the data folder %s is in use by another server: stop it, or set LINKFORGE_DATA_DIR",
			dir)
	}
	return &DataFolder{lock: lock}, nil
}

func (f *DataFolder) Close() error { return f.lock.Close() }

// OpenDatabase connects to PostgreSQL, or opens the SQLite file in the data folder. It refuses to
// create the file in a data folder that has been used, unless NewDatabase is set: all links would
// be missing. CacheBytes bounds the memory of SQLite; zero means its default.
func OpenDatabase(ctx context.Context, c config.Config, cacheBytes int64) (*db.DB, error) {
	if c.Embedded() {
		if err := checkDatabaseFile(c); err != nil {
			return nil, err
		}
		return db.File{Path: DatabaseFile(c), Pool: c.DatabasePool, CacheBytes: cacheBytes,
			ListTimeout: c.ListTimeout}.Open()
	}
	d, err := db.Server{
		URL: c.DatabaseURL, ReadURL: c.DatabaseReadURL, Pool: c.DatabasePool, StatementTimeout: c.StatementTimeout,
		ListTimeout: c.ListTimeout,
		LockTimeout: c.LockTimeout,
	}.Open()
	if err != nil {
		return nil, err
	}
	if err := d.CheckConnection(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// checkDatabaseFile returns an error if the database is missing or empty although other files of
// the data folder show that it had one.
func checkDatabaseFile(c config.Config) error {
	path := DatabaseFile(c)
	switch info, err := os.Stat(path); {
	case err == nil && info.Size() > 0, c.NewDatabase:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the database file: %w", err)
	}
	for _, name := range []string{CodeSecretName, JWTSecretName, ClicksFolder} {
		if _, err := os.Stat(filepath.Join(c.DataDir, name)); err == nil {
			return fmt.Errorf("the database file %s is missing or empty, but the data folder has been used (it has "+
				"%s): "+
				"restore the file from a backup, or start with --new-database to lose all links and accounts", path,
				name)
		}
	}
	return nil
}

// The contents of a data folder.
const (
	DatabaseName   = "linkforge.db"
	JWTSecretName  = "jwt.secret"
	CodeSecretName = "code.secret"
	// EncryptionKeyName is the file of the key that encrypts stored secrets.
	EncryptionKeyName = "encryption.key"
	ClicksFolder      = "clicks"
)

// CountriesFile returns the path of the file of countries.
func CountriesFile(c config.Config) string {
	return cmp.Or(c.GeoIP, filepath.Join(c.DataDir, "countries.mmdb"))
}

func DatabaseFile(c config.Config) string { return filepath.Join(c.DataDir, DatabaseName) }

const (
	// StagingName is the folder within the data folder into which a backup is unpacked. While it
	// exists, no server starts.
	StagingName = "restore.partial"
	// WholeName is the file in it that says that everything has been unpacked and checked.
	WholeName = "whole"
)

// Restoring says that a restore into the folder has begun and not ended.
func Restoring(dir string) (bool, error) {
	staging := filepath.Join(dir, StagingName)
	if _, err := os.Stat(staging); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	_, whole := os.Stat(filepath.Join(staging, WholeName))
	_, database := os.Stat(filepath.Join(dir, DatabaseName))
	return whole == nil || database != nil, nil
}
