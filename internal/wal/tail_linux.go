package wal

import (
	"errors"
	"os"
	"syscall"
)

// mappedTail appends by copying into memory that the kernel shares with the file: a tenth of what a
// system call costs, and it survives the process as well. The file's room is taken beforehand, so
// that no copy can find the disk full.
type mappedTail struct {
	file   *os.File
	memory []byte
	size   int64
}

// openTail begins a segment of up to so many bytes. Where a file system cannot take the room
// beforehand, or has less, each record is a system call.
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

func (t *mappedTail) write(record []byte) error {
	if t.size+int64(len(record)) > int64(len(t.memory)) {
		return errTorn
	}
	t.size += int64(copy(t.memory[t.size:], record))
	return nil
}

func (t *mappedTail) close() error {
	return errors.Join(syscall.Munmap(t.memory), t.file.Truncate(t.size), t.file.Close())
}
