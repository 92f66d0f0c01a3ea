package poll

import (
	"context"
	"os"
	"time"
)

// Files detects that files were replaced or written. One goroutine uses it.
type Files struct {
	paths []string
	// skipMissing postpones the detection while a file is missing. Otherwise its absence is a
	// change.
	skipMissing bool
	seen        []os.FileInfo // nil for a file that was missing
}

// NewFiles returns Files that compare with the state of now. It is called before the files are
// read, so that a change during the read is detected. With skipMissing, nothing has changed while a
// file is missing; without, its absence is a change.
func NewFiles(skipMissing bool, paths ...string) *Files {
	f := &Files{paths: paths, skipMissing: skipMissing, seen: make([]os.FileInfo, len(paths))}
	f.Changed()
	return f
}

// Changed reports whether a file has changed since the previous call.
func (f *Files) Changed() bool {
	now, changed := make([]os.FileInfo, len(f.paths)), false
	for i, path := range f.paths {
		info, err := os.Stat(path)
		if err != nil && f.skipMissing {
			return false
		}
		if err == nil {
			now[i] = info
		}
		changed = changed || !isSame(f.seen[i], now[i])
	}
	f.seen = now
	return changed
}

// Watch calls load whenever a file has changed, until the context ends.
func (f *Files) Watch(ctx context.Context, interval time.Duration, load func(context.Context)) {
	for Wait(ctx, interval) == nil {
		if f.Changed() {
			load(ctx)
		}
	}
}

func isSame(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
