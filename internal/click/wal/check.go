package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// idName is the file with the identity of a log: its ID, and the number of its lock. A copy of the
// folder has another one.
const idName = "id"

// identity returns the content of the file for a folder.
func identity(dir, id string) (string, error) {
	number, err := fileNumber(filepath.Join(dir, lockName))
	return id + " " + number, err
}

// identify writes the identity of a new log.
func (j *Log) identify() error {
	text, err := identity(j.dir, j.id)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(j.dir, idName), []byte(text+"\n"), 0o600)
}

// readIdentity sets the ID of a log that was found, and whether it is a copy. A log of an older
// version has the name of its folder.
func (j *Log) readIdentity() error {
	content, err := os.ReadFile(filepath.Join(j.dir, idName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(content))
	id, _, _ := strings.Cut(text, " ")
	if id == "" {
		return nil // its process died before it wrote any record
	}
	j.id = id
	same, err := identity(j.dir, id)
	j.copied = err != nil || text != same
	return nil
}

// IsCopy reports whether the log that was found is a copy of another one, which may be in use.
func (j *Log) IsCopy() bool { return j.copied }

// Check starts a new segment if files of this process's log were removed or truncated. It reports
// whether it had to.
func (j *Log) Check() (repaired bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.bound == 0 || j.intact() {
		return false, nil
	}
	if err := j.repair(); err != nil {
		return false, fmt.Errorf("repairing a click log: %w", err)
	}
	return true, nil
}

// intact reports whether all files have the records that were written to them.
func (j *Log) intact() bool {
	locked, err := os.Stat(filepath.Join(j.dir, lockName))
	if err != nil || j.locked != nil && !os.SameFile(locked, j.locked) {
		return false
	}
	for _, s := range j.segments {
		info, err := os.Stat(j.path(s.begin))
		if err != nil || info.Size() < s.end-s.begin {
			return false
		}
	}
	if j.tail == nil || len(j.segments) == 0 {
		return true
	}
	open, err := j.tail.info()
	if err != nil {
		return false
	}
	named, err := os.Stat(j.path(j.segments[len(j.segments)-1].begin))
	return err == nil && os.SameFile(open, named)
}

// repair forgets the records that are gone, and begins a segment after the last position: positions
// of the log continue.
func (j *Log) repair() error {
	kept := j.segments[:0]
	for _, s := range j.segments {
		info, err := os.Stat(j.path(s.begin))
		if err != nil || info.Size() == 0 {
			continue
		}
		if info.Size() < s.end-s.begin {
			whole, err := j.trim(s.begin)
			if err != nil {
				return err
			}
			s.end = s.begin + whole
		}
		kept = append(kept, s)
	}
	j.segments = kept
	if j.tail != nil {
		_ = j.tail.close() // the file may be gone
		j.tail = nil
	}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	if err := j.relock(); err != nil {
		return err
	}
	return j.turn(0)
}

// trim removes the rest of a record from the end of a segment that was truncated: it is lost, as are
// those behind it, and no damage of the disk. It returns the length of the whole records.
func (j *Log) trim(begin int64) (whole int64, err error) {
	content, err := os.ReadFile(j.path(begin))
	if err != nil {
		return 0, err
	}
	for at := 0; at < len(content); {
		_, size := parse(content[at:])
		if size == 0 {
			at += nextRecord(content[at:])
			continue
		}
		at += size
		whole = int64(at)
	}
	return whole, os.Truncate(j.path(begin), whole)
}

// relock locks the folder again if its lock was removed.
func (j *Log) relock() error {
	named, err := os.Stat(filepath.Join(j.dir, lockName))
	if err == nil && j.locked != nil && os.SameFile(named, j.locked) {
		return nil
	}
	lock := flock.New(filepath.Join(j.dir, lockName))
	held, err := lock.TryLock()
	if err != nil {
		return err
	}
	if !held {
		return fmt.Errorf("another process holds %s", j.dir)
	}
	_ = j.lock.Close()
	j.lock = lock
	if j.locked, err = os.Stat(filepath.Join(j.dir, lockName)); err != nil {
		return err
	}
	return j.identify()
}

// Sync writes all records that were appended before to the disk.
func (j *Log) Sync() error {
	j.mu.Lock()
	tail := j.tail
	j.mu.Unlock()
	if tail == nil {
		return nil
	}
	if err := tail.sync(); err != nil && !errors.Is(err, os.ErrClosed) { // a closed segment was synced
		return fmt.Errorf("syncing a click log: %w", err)
	}
	return nil
}
