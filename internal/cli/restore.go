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
	"path/filepath"
	"regexp"
	"time"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/codecounter"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/platform/files"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/migrations"
)

// members are the members that a backup may contain, each once, with their maximum length; zero
// means the length in the archive.
var members = []struct {
	name *regexp.Regexp
	most int64
}{
	{regexp.MustCompile(`^linkforge\.db$`), 0},
	{regexp.MustCompile(`^(jwt|code)\.secret$|^encryption\.key$`), 64 << 10},
	{regexp.MustCompile(`^clicks/log_[0-9a-z]{26}/[0-9]{20}\.log$`), 64 << 20},
}

// restoreCommand is `linkforge restore`.
type restoreCommand struct {
	File string `arg:"" type:"existingfile" help:"A file written by linkforge backup."`
}

// Run unpacks the backup into an empty data folder, checks it, and moves it into place. If it is
// killed at any point, it can be run again.
func (r restoreCommand) Run(ctx context.Context, f *config.Flags, io IO) (err error) {
	c, err := f.CheckDatabase()
	if err != nil {
		return fmt.Errorf("the configuration is invalid:\n%w", err)
	}
	if !c.Embedded() {
		return errors.New("LINKFORGE_DATABASE_URL is set: restore PostgreSQL with psql or pg_restore, and run " +
			"linkforge " +
			"after-restore then " +
			`(docs/OPERATIONS.md, "Back up")`)
	}
	folder, err := stores.LockDataFolder(c.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	staging := filepath.Join(c.DataDir, stores.StagingName)
	if _, err := os.Stat(filepath.Join(staging, stores.WholeName)); err == nil {
		fmt.Fprintln(io.Err, "finishing an interrupted restore with its unpacked files; this file is not read")
		return r.finish(c.DataDir, io)
	}
	if err := mustBeEmpty(c.DataDir); err != nil {
		return err
	}
	if err := os.RemoveAll(staging); err != nil {
		return fmt.Errorf("restoring: %w", err)
	}
	head, err := unpackFile(ctx, r.File, staging)
	if err == nil {
		err = prepare(ctx, staging)
	}
	if err != nil {
		return fmt.Errorf("%s is not restored: %w", r.File, errors.Join(err, os.RemoveAll(staging)))
	}
	fmt.Fprintf(io.Out, "the backup of %s, by version %s, is complete\n", head.MadeAt.UTC().Format(time.RFC3339),
		quoted(head.Version))
	return r.finish(c.DataDir, io)
}

func (r restoreCommand) finish(dir string, io IO) error {
	if err := moveIntoPlace(dir); err != nil {
		return fmt.Errorf("restoring: run it again: %w", err)
	}
	fmt.Fprintf(io.Out, "restored into %s; %s\n%s\n", dir, counterMoved, sessionsAreBack)
	if _, err := os.Stat(filepath.Join(dir, stores.CodeSecretName)); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(io.Out, "the backup has no code.secret: set LINKFORGE_CODE_SECRET to its previous value")
	}
	return nil
}

const (
	counterMoved    = "codes of the strategy COUNTER issued since the backup will not be issued again"
	sessionsAreBack = "sessions, API keys and links are those of the backup: revoke or disable again what was " +
		"revoked " +
		"or disabled since"
)

// mustBeEmpty returns an error if the data folder has files that a restore would overwrite. An
// empty folder of click logs is allowed.
func mustBeEmpty(dir string) error {
	logs, err := os.ReadDir(filepath.Join(dir, stores.ClicksFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the data folder: %w", err)
	}
	there := ""
	for _, log := range logs {
		if log.IsDir() {
			there = stores.ClicksFolder
		}
	}
	for _, name := range []string{
		stores.CodeSecretName, stores.JWTSecretName, stores.EncryptionKeyName, stores.DatabaseName +
			"-wal", stores.DatabaseName,
	} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			there = name
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reading the data folder: %w", err)
		}
	}
	if there != "" {
		return fmt.Errorf("the data folder %s is not empty, it has %s: set LINKFORGE_DATA_DIR to a new folder, or "+
			"move %s, "+
			"%s-wal, %s, %s, %s and %s away first",
			dir, there, stores.DatabaseName, stores.DatabaseName, stores.ClicksFolder, stores.JWTSecretName,
			stores.CodeSecretName, stores.EncryptionKeyName)
	}
	return nil
}

// unpackFile unpacks the archive into a new folder.
func unpackFile(ctx context.Context, file, dir string) (head backupHead, err error) {
	in, err := os.Open(file)
	if err != nil {
		return head, err
	}
	defer in.Close()
	compressed, err := gzip.NewReader(in)
	if err != nil {
		return head, errNoBackup
	}
	archive := tar.NewReader(compressed)
	if head, err = readHead(archive); err != nil {
		return head, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return head, err
	}
	for {
		member, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = unpack(archive, member, dir)
		}
		if err != nil {
			return head, fmt.Errorf("the file is damaged or not a backup of Linkforge: %w", err)
		}
	}
	if _, err := io.Copy(io.Discard, compressed); err != nil { // to its end, where the checksum is
		return head, fmt.Errorf("the file is damaged: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, stores.DatabaseName)); err != nil {
		return head, errors.New("the file is damaged: it has no database")
	}
	return head, nil
}

var errNoBackup = errors.New("the file was not written by linkforge backup")

func readHead(archive *tar.Reader) (head backupHead, err error) {
	member, err := archive.Next()
	if err != nil || member.Name != BackupHeadName || member.Size > 4096 {
		return head, errNoBackup
	}
	if err := json.NewDecoder(archive).Decode(&head); err != nil || head.Format < 1 {
		return head, errNoBackup
	}
	if head.Format != backupFormat {
		return head, fmt.Errorf("the backup was written by a later version, %s: restore it with that one",
			quoted(head.Version))
	}
	return head, nil
}

// unpack writes one member, if it is one that a backup has.
func unpack(archive io.Reader, member *tar.Header, dir string) error {
	if err := checkMember(member); err != nil {
		return err
	}
	target := filepath.Join(dir, filepath.FromSlash(member.Name))
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(archive, member.Size))
	return errors.Join(err, out.Sync(), out.Close())
}

func checkMember(member *tar.Header) error {
	for _, known := range members {
		if !known.name.MatchString(member.Name) {
			continue
		}
		if member.Typeflag != tar.TypeReg {
			return fmt.Errorf("%s is not a regular file", quoted(member.Name))
		}
		if known.most > 0 && member.Size > known.most {
			return fmt.Errorf("%s is too long", quoted(member.Name))
		}
		return nil
	}
	return fmt.Errorf("%s is not part of a backup", quoted(member.Name))
}

// prepare checks the unpacked files, prepares the database for a server, and marks them as
// complete.
func prepare(ctx context.Context, staging string) error {
	d, err := db.OpenSQLite(filepath.Join(staging, stores.DatabaseName), 2)
	if err != nil {
		return err
	}
	if err := errors.Join(prepareDatabase(ctx, d, staging), d.Close()); err != nil {
		return err
	}
	for _, beside := range []string{"-wal", "-shm"} { // SQLite removes them when it closes
		if _, err := os.Stat(filepath.Join(staging, stores.DatabaseName+beside)); err == nil {
			return errors.New("the database is still in use")
		}
	}
	whole, err := os.OpenFile(filepath.Join(staging, stores.WholeName), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(syncTree(staging), whole.Close(), files.SyncFolder(filepath.Dir(staging)))
}

// prepareDatabase brings the database up to date, writes the clicks of the logs into it, ends what
// no process has any more, and moves the counter of codes ahead.
func prepareDatabase(ctx context.Context, d *db.DB, staging string) error {
	if err := d.CheckIntegrity(ctx); err != nil {
		return err
	}
	if _, err := migrate.Up(ctx, d, migrations.Files, time.Now()); err != nil {
		return err
	}
	secret, err := os.ReadFile(filepath.Join(staging, stores.CodeSecretName))
	if err == nil {
		var cell int
		if cell, err = codecounter.CellOf(ctx, d); err == nil {
			err = codecounter.New(d, config.SplitSecrets(secret), cell).Pin(ctx)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := settleClicks(ctx, d, filepath.Join(staging, stores.ClicksFolder)); err != nil {
		return err
	}
	_, err = codecounter.AfterRestore(ctx, d)
	if err == nil {
		err = clickstore.AfterRestore(ctx, d)
	}
	return err
}

// settleClicks writes the clicks of the logs. It does not return unused hits as after a crash,
// because the database is of a later instant than the logs. RecountGrants counts the grants again
// instead.
func settleClicks(ctx context.Context, d *db.DB, logs string) error {
	err := withRecorder(stores.ForCopy(d), func(recorder *ingest.Recorder) error {
		if _, err := os.Stat(logs); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if _, err := recorder.AdoptFrom(ctx, logs); err != nil {
			return err
		}
		_ = os.Remove(filepath.Join(logs, "lock"))
		_ = os.Remove(logs) // unless it contains damaged records for the operator
		return nil
	})
	if err != nil {
		return err
	}
	s, err := stores.Open(stores.ForCopy(d))
	if err != nil {
		return err
	}
	return s.Grants.RecountGrants(ctx)
}

// syncTree sees to it that the names in the folder, and below it, are on the disk.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return files.SyncFolder(path)
	})
}

// moveIntoPlace moves the unpacked files to the server's paths. It skips files that have been moved
// already.
func moveIntoPlace(dir string) error {
	staging := filepath.Join(dir, stores.StagingName)
	if err := clearClicks(dir, staging); err != nil {
		return err
	}
	for _, name := range []string{
		stores.ClicksFolder, stores.JWTSecretName, stores.CodeSecretName, stores.EncryptionKeyName, stores.DatabaseName,
	} {
		err := os.Rename(filepath.Join(staging, name), filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := files.SyncFolder(dir); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(staging, stores.WholeName)); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(staging), files.SyncFolder(dir))
}

// clearClicks removes a folder of click logs without any, so that the one that was unpacked can
// take its place.
func clearClicks(dir, staging string) error {
	if _, err := os.Stat(filepath.Join(staging, stores.ClicksFolder)); err != nil {
		return nil // there is none, or it has been moved
	}
	for _, name := range []string{filepath.Join(stores.ClicksFolder, "lock"), stores.ClicksFolder} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// restoredCommand is `linkforge after-restore`. It is run before the first server starts on the
// database.
type restoredCommand struct {
	listing
	Grants bool `help:"Recount the grants of maxClicks from the clicks. Run linkforge clicks adopt first."`
}

// Run does what restore does, and moves the positions in the event log.
func (r restoredCommand) Run(ctx context.Context, f *config.Flags, io IO) error {
	return besideServers(f, func(c config.Config, d *db.DB) error {
		s, err := stores.Open(stores.ForCopy(d))
		if err != nil {
			return err
		}
		next, err := codecounter.AfterRestore(ctx, d)
		if err == nil {
			err = s.Webhooks.AfterRestore(ctx)
		}
		if err == nil {
			err = audit.AfterRestore(ctx, d)
		}
		if err == nil {
			err = clickstore.AfterRestore(ctx, d)
		}
		if err == nil && r.Grants {
			err = s.Grants.RecountGrants(ctx)
		}
		if err != nil {
			return err
		}
		steps := ""
		if !c.Embedded() {
			steps = "\nbefore the first node starts, empty its Redis (redis-cli -u \"$LINKFORGE_REDIS_URL\" " +
				"FLUSHDB): hits of the month are then counted from the clicks that the database has\n" +
				"logs of clicks that nodes still have in their data folders are written when they start; " +
				"those of nodes that are gone: linkforge clicks adopt DIR"
		}
		return showOne(io, r.listing, struct {
			Counter uint64 `json:"counter"`
		}{next}, "%s\n%s%s", counterMoved, sessionsAreBack, steps)
	})
}
