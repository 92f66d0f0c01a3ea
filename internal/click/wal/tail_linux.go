package wal

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
)

// mappedTail appends by copying into memory that the kernel shares with the file, for a tenth of
// the cost of a system call; the data survives the process as well. The file's space is allocated
// in advance, so that no copy meets a full disk.
type mappedTail struct {
	file   *os.File
	memory []byte
	size   int64
}

// openTail begins a segment of up to most bytes. If the file system cannot allocate the space in
// advance, each record is a system call.
func openTail(path string, most int64) (tail, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	memory, err := mapped(file, most)
	if err != nil {
		_ = file.Close()
		return openPlain(path)
	}
	return &mappedTail{file: file, memory: memory}, nil
}

func mapped(file *os.File, most int64) ([]byte, error) {
	if err := syscall.Fallocate(int(file.Fd()), 0, 0, most); err != nil {
		return nil, err
	}
	return syscall.Mmap(int(file.Fd()), 0, int(most), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// write returns errTorn if another process has truncated the file: copying into pages that are gone
// raises SIGBUS, which would end the process otherwise.
func (t *mappedTail) write(record []byte) (err error) {
	if t.size+int64(len(record)) > int64(len(t.memory)) {
		return errTorn
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%w: %v", errTorn, fault)
		}
	}()
	t.size += int64(copy(t.memory[t.size:], record))
	return nil
}

func (t *mappedTail) sync() error                { return t.file.Sync() }
func (t *mappedTail) info() (os.FileInfo, error) { return t.file.Stat() }

// close frees the room that was not used. It does not extend a file that another process has
// truncated, which would hide that records are gone.
func (t *mappedTail) close() error {
	info, err := t.file.Stat()
	if err == nil && info.Size() > t.size {
		err = t.file.Truncate(t.size)
	}
	return errors.Join(syscall.Munmap(t.memory), err, t.file.Close())
}
