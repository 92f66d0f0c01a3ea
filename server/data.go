package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/db"
)

// dataFolder is the folder of an embedded instance, held by one process: quotas are counted in its memory, so a
// second one would give everything twice.
type dataFolder struct {
	lock *flock.Flock
}

// openDataFolder refuses a folder that a restore was interrupted in: a half of what belongs together is there.
func openDataFolder(dir string) (*dataFolder, error) {
	f, err := lockDataFolder(dir)
	if err != nil {
		return nil, err
	}
	if half, err := restoring(dir); half || err != nil {
		if half {
			err = fmt.Errorf("a restore into the data folder %s was interrupted: run linkforge restore again", dir)
		}
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func lockDataFolder(dir string) (*dataFolder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	if !held {
		return nil, fmt.Errorf("the data folder %s is in use by another server: stop it, or set LINKFORGE_DATA_DIR", dir)
	}
	return &dataFolder{lock: lock}, nil
}

func (f *dataFolder) close() error { return f.lock.Close() }

// openDatabase opens PostgreSQL, or the SQLite file in the data folder.
func openDatabase(c config.Config) (*db.DB, error) {
	if c.Embedded() {
		return db.OpenSQLite(databaseFile(c), c.DatabasePool)
	}
	return db.Server{
		URL: c.DatabaseURL, ReadURL: c.DatabaseReadURL, Pool: c.DatabasePool, StatementTimeout: c.StatementTimeout, LockTimeout: c.LockTimeout,
	}.Open()
}

// What is in a data folder.
const (
	databaseName   = "linkforge.db"
	jwtSecretName  = "jwt.secret"
	codeSecretName = "code.secret"
	clicksFolder   = "clicks"
)

func databaseFile(c config.Config) string { return filepath.Join(c.DataDir, databaseName) }
