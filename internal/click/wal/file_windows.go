package wal

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// fileNumber identifies a file of this machine by its volume and its number there. A copy has
// another number.
func fileNumber(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	var info syscall.ByHandleFileInformation
	err = syscall.GetFileInformationByHandle(syscall.Handle(file.Fd()), &info)
	return fmt.Sprintf("%d %d", info.VolumeSerialNumber, uint64(info.FileIndexHigh)<<32|uint64(info.FileIndexLow)),
		errors.Join(err, file.Close())
}
