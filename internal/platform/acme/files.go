// Package acme obtains and renews TLS certificates from an authority that speaks ACME (RFC 8555), which CertMagic does.
//
// Files stores the account, keys, certificates and challenges in the database, sealed, so that all nodes share them and
// each answers any challenge. Manager answers handshakes from memory. It loads or orders the certificate of a host that
// has none there, and renews it in time. The server decides which hosts may have certificates.
package acme

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/platform/secrets"
)

// Files is the storage of CertMagic in the database, with its locks. Names are paths, whose folders exist while they
// have files. It is safe for concurrent use, on any number of nodes.
type Files struct {
	DB *db.DB
	// Box seals the contents.
	Box secrets.Box
	Now func() time.Time

	mu   sync.Mutex
	held map[string]hold // the locks of this process, by name
}

var (
	_ certmagic.Storage   = (*Files)(nil)
	_ certmagic.TryLocker = (*Files)(nil)
)

// file is a row of acme_files.
type file struct {
	bun.BaseModel `bun:"table:acme_files"`

	Name       string `bun:",pk"`
	Value      []byte
	ModifiedAt time.Time
}

// statement returns the context of one statement.
func statement(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(db.AsSystem(ctx), lease.Timeout)
}

// Store implements certmagic.Storage. It returns Forbidden without a key to seal with.
func (f *Files) Store(ctx context.Context, name string, value []byte) error {
	ctx, cancel := statement(ctx)
	defer cancel()
	sealed, err := f.Box.Seal(secrets.ACMEFile, name, value)
	if err != nil {
		return err
	}
	_, err = f.DB.NewInsert().Model(&file{Name: name, Value: sealed, ModifiedAt: db.Instant(f.Now())}).
		On("CONFLICT (name) DO UPDATE").Set("value = EXCLUDED.value").Set("modified_at = EXCLUDED.modified_at").
		Exec(ctx)
	if err != nil {
		return fmt.Errorf("storing a file of TLS certificates: %w", err)
	}
	return nil
}

// Load implements certmagic.Storage.
func (f *Files) Load(ctx context.Context, name string) ([]byte, error) {
	_, value, err := f.read(ctx, name)
	return value, err
}

// read returns fs.ErrNotExist for an unknown name.
func (f *Files) read(ctx context.Context, name string) (row file, value []byte, err error) {
	ctx, cancel := statement(ctx)
	defer cancel()
	err = f.DB.NewSelect().Model(&row).Where("name = ?", name).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return row, nil, fs.ErrNotExist
	}
	if err == nil {
		value, err = f.Box.Open(secrets.ACMEFile, name, row.Value)
	}
	if err != nil {
		return row, nil, fmt.Errorf("reading a file of TLS certificates: %w", err)
	}
	return row, value, nil
}

// Delete implements certmagic.Storage.
func (f *Files) Delete(ctx context.Context, name string) error {
	ctx, cancel := statement(ctx)
	defer cancel()
	from, to := within(name)
	_, err := f.DB.NewDelete().Model((*file)(nil)).Where("name = ? OR name > ? AND name < ?", name, from, to).Exec(ctx)
	if err != nil {
		return fmt.Errorf("deleting files of TLS certificates: %w", err)
	}
	return nil
}

// within returns the bounds of the names in a folder: 0 follows the slash in ASCII.
func within(folder string) (from, to string) { return folder + "/", folder + "0" }

// Exists implements certmagic.Storage. Without the database nothing exists.
func (f *Files) Exists(ctx context.Context, name string) bool {
	ctx, cancel := statement(ctx)
	defer cancel()
	from, to := within(name)
	exists, err := f.DB.NewSelect().Model((*file)(nil)).Where("name = ? OR name > ? AND name < ?", name, from, to).
		Exists(ctx)
	return err == nil && exists
}

// List implements certmagic.Storage. It returns fs.ErrNotExist for a folder without files.
func (f *Files) List(ctx context.Context, folder string, recursive bool) (names []string, err error) {
	ctx, cancel := statement(ctx)
	defer cancel()
	from, to := within(folder)
	err = f.DB.NewSelect().Model((*file)(nil)).Column("name").Where("name > ? AND name < ?", from, to).Order("name").
		Scan(ctx, &names)
	if err != nil {
		return nil, fmt.Errorf("listing files of TLS certificates: %w", err)
	}
	if len(names) == 0 {
		return nil, fs.ErrNotExist
	}
	if recursive {
		return names, nil
	}
	for i, name := range names {
		child, _, _ := strings.Cut(name[len(from):], "/")
		names[i] = from + child
	}
	return slices.Compact(names), nil
}

// Stat implements certmagic.Storage.
func (f *Files) Stat(ctx context.Context, name string) (certmagic.KeyInfo, error) {
	row, value, err := f.read(ctx, name)
	if errors.Is(err, fs.ErrNotExist) && f.Exists(ctx, name) {
		return certmagic.KeyInfo{Key: name}, nil // a folder
	}
	return certmagic.KeyInfo{Key: name, Modified: row.ModifiedAt, Size: int64(len(value)), IsTerminal: true}, err
}
