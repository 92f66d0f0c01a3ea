//go:build !linux

package wal

// openTail begins a segment.
func openTail(path string, _ int64) (tail, error) { return openPlain(path) }
