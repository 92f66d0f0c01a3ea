package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"time"
)

// entry is a file of an archive: its name there, where it is read from, and its mode.
type entry struct {
	name, path string
	mode       int64
}

// archive writes a tar.gz with one folder. Owner, time and order are always the same: nothing of
// the machine goes in.
func archive(w io.Writer, folder string, at time.Time, entries []entry) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	packed := tar.NewWriter(zipped)
	head := tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR}
	if err := packed.WriteHeader(&head); err != nil {
		return err
	}
	for _, e := range entries {
		content, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		head := tar.Header{Typeflag: tar.TypeReg, Name: folder + "/" + e.name, Mode: e.mode, Size: int64(len(content)),
			ModTime: at, Format: tar.FormatUSTAR}
		if err := packed.WriteHeader(&head); err != nil {
			return err
		}
		if _, err := packed.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(packed.Close(), zipped.Close())
}
