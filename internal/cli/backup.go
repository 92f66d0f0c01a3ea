package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/linkforge/linkforge/internal/click/wal"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/files"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/stores"
)

const (
	// backupFormat is the format that this version writes, and the only one so far.
	backupFormat = 1
	// BackupHeadName is the first member of a backup, which describes it.
	BackupHeadName = "backup.json"
)

// backupHead describes a backup.
type backupHead struct {
	Format  int       `json:"linkforgeBackup"`
	Version string    `json:"version"`
	MadeAt  time.Time `json:"madeAt"`
}

// backupCommand is `linkforge backup`. It works while the server runs.
type backupCommand struct {
	listing
	File string `arg:"" help:"The file to write, such as linkforge-2026-11-22.tar.gz. It must not exist."`
}

// Run writes the backup.
func (b backupCommand) Run(ctx context.Context, f *config.Flags, io IO) error {
	if c, err := f.CheckDatabase(); err == nil && !c.Embedded() {
		return errors.New("LINKFORGE_DATABASE_URL is set: back PostgreSQL up with pg_dump or a base backup, and " +
			"store the " +
			`secrets with it (docs/OPERATIONS.md, "Back up")`)
	}
	return besideServers(f, func(c config.Config, d *db.DB) error {
		size, err := writeBackup(ctx, c, d, b.File, secretFiles(f))
		if err != nil {
			return err
		}
		for _, name := range []string{stores.JWTSecretName, stores.CodeSecretName, stores.EncryptionKeyName} {
			if !slices.Contains(secretFiles(f), name) {
				fmt.Fprintf(io.Err,
					"%s is not in the backup, because it is set in the environment: store it separately\n", name)
			}
		}
		return showOne(io, b.listing, struct {
			File  string `json:"file"`
			Bytes int64  `json:"bytes"`
		}{b.File, size}, "wrote %s, %d bytes: it holds the secrets, keep it as safe as the data folder", b.File, size)
	})
}

// secretFiles are the secrets that the data folder has and the environment does not replace.
func secretFiles(f *config.Flags) (names []string) {
	if !f.Has("LINKFORGE_JWT_SECRET") {
		names = append(names, stores.JWTSecretName)
	}
	if !f.Has("LINKFORGE_CODE_SECRET") {
		names = append(names, stores.CodeSecretName)
	}
	if !f.Has("LINKFORGE_ENCRYPTION_KEY") {
		names = append(names, stores.EncryptionKeyName)
	}
	return names
}

// writeBackup writes the file under another name first: a backup that has its name is whole, and on
// the disk.
func writeBackup(
	ctx context.Context, c config.Config, d *db.DB, file string, secrets []string,
) (size int64, err error) {
	if err := mustBeNew(file); err != nil {
		return 0, err
	}
	partial := file + ".partial"
	lock := flock.New(partial+lockBeside, flock.SetPermissions(0o600))
	held, err := lock.TryLock()
	if err != nil {
		return 0, fmt.Errorf("writing the backup: %w", err)
	}
	if !held {
		return 0, fmt.Errorf("another backup is being written to %s", file)
	}
	defer lock.Close()
	defer os.Remove(partial) // after the rename there is nothing to remove
	out, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("writing the backup: %w", err)
	}
	err = errors.Join(out.Chmod(0o600), pack(ctx, c, d, out, partial+".db", secrets), out.Sync())
	if info, problem := out.Stat(); problem == nil {
		size = info.Size()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return 0, fmt.Errorf("writing the backup: %w", err)
	}
	if err := mustBeNew(file); err != nil { // it took a while
		return 0, err
	}
	if err := os.Rename(partial, file); err != nil {
		return 0, fmt.Errorf("writing the backup: %w", err)
	}
	return size, files.SyncFolder(filepath.Dir(file))
}

func mustBeNew(file string) error {
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("%s exists, and backups are not overwritten: choose another name", file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing the backup: %w", err)
	}
	return nil
}

// pack writes everything into one compressed archive. The logs come before the database: a click
// that is in neither when its log is copied comes later, and one that is in both is counted once,
// because the database says how far it has each log.
func pack(ctx context.Context, c config.Config, d *db.DB, out io.Writer, copy string, secrets []string) error {
	compressed, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return err
	}
	p := packer{tar.NewWriter(compressed), time.Now()}
	head, err := json.Marshal(backupHead{backupFormat, Version(), p.now.UTC()})
	if err == nil {
		err = p.add(BackupHeadName, head)
	}
	if err == nil {
		err = wal.Copy(filepath.Join(c.DataDir, stores.ClicksFolder),
			func(logID, segment string, content []byte) error {
				if !id.Valid(id.Log, logID) {
					return fmt.Errorf("the folder %s of %s is no click log: remove it from there", quoted(logID),
						stores.ClicksFolder)
				}
				return p.add(path.Join(stores.ClicksFolder, logID, segment), content)
			})
	}
	if err == nil {
		err = p.addDatabase(ctx, d, copy)
	}
	for _, name := range secrets {
		if err == nil {
			err = p.addSecret(filepath.Join(c.DataDir, name), name)
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	return errors.Join(p.Close(), compressed.Close())
}

// packer fills an archive.
type packer struct {
	*tar.Writer
	now time.Time
}

func (p packer) begin(name string, size int64) error {
	return p.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: size, ModTime: p.now})
}

func (p packer) add(name string, content []byte) error {
	if err := p.begin(name, int64(len(content))); err != nil {
		return err
	}
	_, err := p.Write(content)
	return err
}

// addSecret leaves out a secret that the environment has.
func (p packer) addSecret(file, name string) error {
	secret, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.add(name, secret)
}

// addDatabase copies the database into a file of its own first: how long it is must be known
// beforehand.
func (p packer) addDatabase(ctx context.Context, d *db.DB, copy string) (err error) {
	defer func() { err = errors.Join(err, removeDatabase(copy)) }()
	if err := d.CopyTo(ctx, copy); err != nil {
		return err
	}
	if err := forgetWho(ctx, copy); err != nil {
		return err
	}
	file, err := os.Open(copy)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := p.begin(stores.DatabaseName, info.Size()); err != nil {
		return err
	}
	_, err = io.Copy(p, file)
	return err
}

// forgetWho deletes visitors and their keys from a copy.
func forgetWho(ctx context.Context, file string) error {
	d, err := db.OpenSQLite(file, 1)
	if err != nil {
		return err
	}
	s, err := stores.Open(stores.ForCopy(d))
	if err == nil {
		err = s.Ledger.ForgetWho(ctx)
	}
	return errors.Join(err, d.Close())
}

// removeDatabase removes a copy and the files that SQLite adds to it.
func removeDatabase(file string) (err error) {
	for _, beside := range []string{"", "-wal", "-shm", "-journal"} {
		if problem := os.Remove(file + beside); problem != nil && !errors.Is(problem, fs.ErrNotExist) {
			err = errors.Join(err, problem)
		}
	}
	return err
}
