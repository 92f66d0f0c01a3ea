// Package wal is a write-ahead log: records in files that survive the process. When Append returns,
// the kernel has the record, which survives a kill -9. (A loss of power may lose records that the
// kernel has not written to disk yet.) It does not know the contents of records. The click recorder
// uses it.
//
// A log is a folder that one process holds a lock on. The folder's name is the log's ID, wherever
// the folder is moved to. The position of a record is the offset of its end, in bytes since the log
// began. Records are in segments, files that are named by their first position, and segments are
// removed once all their records are released.
package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/linkforge/linkforge/internal/platform/files"
)

const (
	// headerBytes come before each record: its length and its checksum, four bytes each.
	headerBytes = 8
	// MaxRecord bounds a record, which exposes most damaged lengths.
	MaxRecord = 64 << 10
	// segmentBytes is where a segment ends and the next begins, but one takes no more than a part
	// of the log's bound: the last is never removed, and must leave room.
	segmentBytes = 8 << 20
	segmentPart  = 4
	// segmentEnding is the ending of a segment's name.
	segmentEnding = ".log"
	// lockName is the file that the process locks in its log's folder. The file of this name next
	// to the logs is locked while a log is created, found or removed.
	lockName = "lock"
)

// castagnoli is the polynomial that processors compute by themselves.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrFull is returned when a record has no room: the log has reached its bound, or the disk has
// none.
var ErrFull = errors.New("the journal is full")

// Log is an open log.
type Log struct {
	dir   string
	id    string
	bound int64
	turns int64 // how long a segment gets
	lock  *flock.Flock
	// locked describes the lock's file, and copied reports that a found log is a copy.
	locked os.FileInfo
	copied bool
	// Durable is set before the first Append: segments are written to the disk when they end.
	Durable bool

	mu       sync.Mutex
	segments []segment
	open     func(path string, most int64) (tail, error)
	stuck    bool // the last segment could not grow
	tail     tail // of the last segment; nil in a log that was found
	end      int64
	buffer   []byte
}

// segment is a file of a log: the bytes from begin to end.
type segment struct{ begin, end int64 }

// Create makes a log of that id, in a folder of its own within dir, that takes up to bound bytes.
func Create(dir, id string, bound int64) (j *Log, err error) {
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = alone(dir, func() (err error) { j, err = hold(dir, id); return err })
	}
	if err != nil {
		return nil, fmt.Errorf("making a journal: %w", err)
	}
	if j == nil {
		return nil, fmt.Errorf("the journal %s is held by another process", id)
	}
	j.bound, j.turns, j.open = bound, min(segmentBytes, bound/segmentPart), openTail
	if err := j.identify(); err != nil {
		return nil, errors.Join(fmt.Errorf("creating a click log: %w", err), j.Close())
	}
	return j, nil
}

// alone does something while no other process does: a log that is being made is not found before it
// is held, and one that is being removed is not found at all.
func alone(dir string, do func() error) error {
	lock := flock.New(filepath.Join(dir, lockName))
	if err := lock.Lock(); err != nil {
		return err
	}
	return errors.Join(do(), lock.Close())
}

// hold locks the log's folder; it returns nil when another process has.
func hold(dir, id string) (*Log, error) {
	j := &Log{dir: filepath.Join(dir, id), id: id}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return nil, err
	}
	j.lock = flock.New(filepath.Join(j.dir, lockName))
	held, err := j.lock.TryLock()
	if err != nil || !held {
		return nil, err
	}
	j.locked, err = os.Stat(filepath.Join(j.dir, lockName))
	return j, err
}

// Found opens the logs within dir whose processes have died. This process holds them from now on.
func Found(dir string) (found []*Log, err error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	err = alone(dir, func() (err error) { found, err = find(dir); return err })
	if err != nil {
		return found, fmt.Errorf("looking for journals: %w", err)
	}
	return found, nil
}

func find(dir string) (found []*Log, err error) {
	folders, err := os.ReadDir(dir)
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		j, problem := hold(dir, folder.Name())
		if problem == nil && j != nil {
			if problem = errors.Join(j.readIdentity(), j.load()); problem == nil {
				found = append(found, j)
				continue
			}
			_ = j.Close() // another process takes it over
		}
		err = errors.Join(err, problem)
	}
	return found, err
}

// load finds out which segments a log has.
func (j *Log) load() error {
	files, err := os.ReadDir(j.dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		begin, ok := segmentBegin(file.Name())
		if !ok {
			continue
		}
		info, err := file.Info()
		if err != nil {
			return err
		}
		j.segments = append(j.segments, segment{begin, begin + info.Size()})
	}
	slices.SortFunc(j.segments, func(a, b segment) int { return int(a.begin - b.begin) })
	for i := range len(j.segments) - 1 { // the remains of a failed write end where the next segment begins
		j.segments[i].end = min(j.segments[i].end, j.segments[i+1].begin)
	}
	if len(j.segments) == 0 {
		return nil
	}
	last := &j.segments[len(j.segments)-1]
	file, err := os.Open(j.path(last.begin))
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := used(file, last.end-last.begin)
	last.end = last.begin + size
	j.end = last.end
	return err
}

// ID is the log's name.
func (j *Log) ID() string { return j.id }

// End is where the last record ends.
func (j *Log) End() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.end
}

// Bytes is the room that the log takes.
func (j *Log) Bytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bytes()
}

func (j *Log) bytes() int64 {
	if len(j.segments) == 0 {
		return 0
	}
	return j.end - j.segments[0].begin
}

// Append stores a record of 1 to MaxRecord bytes, and returns its end. It returns ErrFull, and
// stores nothing, when the log has no space.
func (j *Log) Append(record []byte) (end int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	size := int64(headerBytes + len(record))
	if len(record) == 0 || len(record) > MaxRecord {
		return j.end, fmt.Errorf("a record of %d bytes cannot be read again", len(record))
	}
	if j.bytes()+size > j.bound {
		return j.end, ErrFull
	}
	if j.tail == nil || j.end-j.segments[len(j.segments)-1].begin+size > j.turns {
		if err := j.turn(size); err != nil {
			return j.end, full(err)
		}
	}
	j.buffer = binary.LittleEndian.AppendUint32(j.buffer[:0], uint32(len(record)))
	j.buffer = binary.LittleEndian.AppendUint32(j.buffer, crc32.Checksum(record, castagnoli))
	j.buffer = append(j.buffer, record...)
	if err := j.tail.write(j.buffer); err != nil {
		j.stuck = true
		if errors.Is(err,
			errTorn) { // the next record begins a segment, at whose start readers of this one stop
			_ = j.tail.close()
			j.tail = nil
		}
		return j.end, full(err)
	}
	j.end += size
	j.segments[len(j.segments)-1].end = j.end
	return j.end, nil
}

// full wraps all errors of missing space in ErrFull.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("writing a journal: %w", err)
}

// turn begins the next segment, which has space for a record of that size. An empty segment is
// re-created.
func (j *Log) turn(size int64) error {
	if j.tail != nil {
		if j.Durable {
			if err := j.tail.sync(); err != nil {
				return err
			}
		}
		_ = j.tail.close() // every write has been answered
		j.tail = nil
	}
	tail, err := j.open(j.path(j.end), max(j.turns, size))
	if err != nil {
		return err
	}
	if n := len(j.segments); n == 0 || j.segments[n-1].begin != j.end {
		j.segments = append(j.segments, segment{j.end, j.end})
	}
	j.tail = tail
	if j.Durable {
		return files.SyncFolder(j.dir)
	}
	return nil
}

func (j *Log) path(begin int64) string {
	return filepath.Join(j.dir, fmt.Sprintf("%020d%s", begin, segmentEnding))
}

// Release removes the segments before the position. The last one stays, unless it cannot grow: then
// its space is needed for the next.
func (j *Log) Release(position int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.segments) > 0 && j.segments[0].end <= position && (len(j.segments) > 1 || j.stuck) {
		if len(j.segments) == 1 && j.tail != nil {
			_ = j.tail.close() // it is removed
			j.tail = nil
		}
		if err := os.Remove(j.path(j.segments[0].begin)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("releasing a journal: %w", err)
		}
		j.segments = j.segments[1:]
		j.stuck = j.stuck && len(j.segments) > 0
	}
	return nil
}

// Remove closes the log and removes it with all that is in it.
func (j *Log) Remove() error {
	err := alone(filepath.Dir(j.dir), func() error {
		j.mu.Lock()
		for _, s := range j.segments { // before the lock: if this process dies here, the next finds nothing
			_ = os.Remove(j.path(s.begin))
		}
		j.bound, j.segments = 0, nil
		j.mu.Unlock()
		return errors.Join(j.Close(), os.RemoveAll(j.dir)) // Windows removes no open file
	})
	if err != nil {
		return fmt.Errorf("removing a journal: %w", err)
	}
	return nil
}

// Close unlocks the log for other processes. Later appends fail.
func (j *Log) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.bound = 0
	var err error
	if j.tail != nil {
		err = j.tail.close()
		j.tail = nil
	}
	return errors.Join(err, j.lock.Close())
}

// SetAside stores unusable bytes in a file next to the logs, for the operator.
func (j *Log) SetAside(data []byte) error {
	file, err := os.OpenFile(j.dir+".damaged", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = file.Write(data)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("setting damaged records aside: %w", err)
	}
	return nil
}
