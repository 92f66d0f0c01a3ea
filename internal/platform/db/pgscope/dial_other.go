//go:build !linux

package pgscope

import "syscall"

// limitSilence does nothing: only Linux has the option.
func limitSilence(syscall.RawConn) error { return nil }
