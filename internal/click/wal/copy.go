package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Copy calls keep with the segments of all logs in dir, in their order, while other processes write
// them: the log's ID, the segment's file name, and its records. It includes every record that was
// appended before the call, unless its segment has been released meanwhile. It stops at keep's
// first error.
func Copy(dir string, keep func(id, name string, content []byte) error) error {
	folders, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copying journals: %w", err)
	}
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		if err := copyJournal(filepath.Join(dir, folder.Name()), folder.Name(), keep); err != nil {
			return fmt.Errorf("copying the journal %s: %w", folder.Name(), err)
		}
	}
	return nil
}

func copyJournal(dir, id string, keep func(id, name string, content []byte) error) error {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has just been removed
	}
	for _, file := range files {
		if _, ok := segmentBegin(file.Name()); !ok {
			continue
		}
		content, err := copyFile(filepath.Join(dir, file.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just been released
		}
		if err != nil {
			return err
		}
		if len(content) == 0 {
			continue
		}
		if err := keep(id, file.Name(), content); err != nil {
			return err
		}
	}
	return err
}

// segmentBegin parses the name of a segment, which is where it begins.
func segmentBegin(name string) (begin int64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentEnding)
	begin, err := strconv.ParseInt(digits, 10, 64)
	return begin, ok && err == nil
}

func copyFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return copySegment(file)
}

// copySegment reads a segment twice. The first reading finds the end of a complete record. Records
// that are appended meanwhile may be seen out of order. Everything before that end is complete for
// the second reading.
func copySegment(file interface {
	io.Reader
	io.ReaderAt
}) ([]byte, error) {
	seen, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	content := make([]byte, wholeEnd(seen))
	n, err := file.ReadAt(content, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return content[:n], nil
}

// wholeEnd is where the last whole record ends.
func wholeEnd(content []byte) int64 {
	var c Chunk
	c.take(content, math.MaxInt, true, true)
	if len(c.Records) == 0 {
		return 0
	}
	return c.Records[len(c.Records)-1].End
}
