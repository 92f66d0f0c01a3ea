//go:build unix

package wal

import (
	"fmt"
	"os"
	"syscall"
)

// fileNumber identifies a file of this machine by its device and inode. A copy has another inode.
func fileNumber(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d %d", stat.Dev, stat.Ino), nil
}
