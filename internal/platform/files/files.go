// Package files replaces files so that every reader, and the next start after a loss of power, finds
// a whole one.
package files

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// Replace writes a file with a mode. Until the whole content is on the disk, the path leads to the
// previous file, if there is one. Concurrent calls do not mix: the last one wins.
func Replace(path string, content []byte, mode os.FileMode) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	err = errors.Join(err, temporary.Chmod(mode), temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder has the names of the files of a folder written to the disk. Windows has no call for
// that.
func SyncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
