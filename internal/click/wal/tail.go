package wal

import (
	"errors"
	"os"
)

// tail is the end of the last segment, where records are appended.
type tail interface {
	// write appends a record; after an error no part of it is stored.
	write(record []byte) error
	// sync writes all records to the disk.
	sync() error
	// info describes the open file, also if its path names another one by now.
	info() (os.FileInfo, error)
	// close ends the segment where the last record does.
	close() error
}

// errTorn means that the remains of a failed write could not be removed: the segment ends.
var errTorn = errors.New("the remains of a failed write could not be removed")

// plainTail appends by a system call for each record.
type plainTail struct {
	file *os.File
	size int64
}

func openPlain(path string) (tail, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &plainTail{file: file}, nil
}

func (t *plainTail) write(record []byte) error {
	if _, err := t.file.Write(record); err != nil {
		if t.file.Truncate(t.size) != nil {
			return errors.Join(err, errTorn)
		}
		return err
	}
	t.size += int64(len(record))
	return nil
}

func (t *plainTail) sync() error                { return t.file.Sync() }
func (t *plainTail) info() (os.FileInfo, error) { return t.file.Stat() }
func (t *plainTail) close() error               { return t.file.Close() }
