package wal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// copied is a copy of all logs, as a folder of its own.
func copied(t *testing.T, dir string) (copy string) {
	t.Helper()
	copy = t.TempDir()
	must.NoError(t, Copy(dir, func(id, name string, content []byte) error {
		if err := os.MkdirAll(filepath.Join(copy, id), 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(copy, id, name), content, 0o600)
	}))
	return copy
}

// TestCopy_IsConsistentConcurrently: a copy has no gaps, and contains all records that existed at
// its beginning and were not released.
func TestCopy_IsConsistentConcurrently(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := createIn(t, dir, "living", 1<<30)
	j.turns = 64 << 10
	var writing sync.WaitGroup
	stop := make(chan struct{})
	writing.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			end, err := j.Append(bytes.Repeat([]byte{byte(n), 0}, 1+n%200))
			if err == nil && n%1000 == 0 {
				err = j.Release(end - 256<<10)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 30 {
		least := j.End()
		found := must.Value(Found(copied(t, dir)))(t)
		j.mu.Lock()
		released := j.end-j.bytes() > least
		j.mu.Unlock()
		for _, c := range found {
			begin := c.segments[0].begin
			records, damaged := readAll(t, c, begin, 1000)
			if len(damaged) > 0 {
				t.Fatalf("%d bytes of a copy are damaged", len(damaged))
			}
			if end := records[len(records)-1].End; end < least && !released {
				t.Fatalf("a copy ends at %d, and begun when the journal had reached %d", end, least)
			}
			c.Close()
		}
	}
	close(stop)
	writing.Wait()
}

// growing is a segment that is appended to while it is read for the first time: the reader had
// passed when the middle was written.
type growing struct {
	io.Reader
	io.ReaderAt
}

func TestCopy_OfAGrowingLogHasNoGap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := createIn(t, dir, "living", 1<<20)
	records := fill(t, j, 100)
	whole := must.Value(os.ReadFile(j.path(0)))(t)
	seen := bytes.Clone(whole)
	clear(seen[records[40].End:records[60].End])
	clear(seen[records[80].End+3:]) // the next record had been begun
	got, err := copySegment(growing{bytes.NewReader(seen), bytes.NewReader(whole)})
	if err != nil || !bytes.Equal(got, whole[:records[80].End]) {
		t.Errorf("copied %d bytes, want the %d of 81 records: %v", len(got), records[80].End, err)
	}
}

func TestCopy_OfAnEmptyLog(t *testing.T) {
	t.Parallel()
	keep := func(string, string, []byte) error { t.Error("something was kept"); return nil }
	must.NoError(t, Copy(filepath.Join(t.TempDir(), "nowhere"), keep))
	broken := errors.New("broken")
	dir := t.TempDir()
	fill(t, createIn(t, dir, "living", 1<<20), 1)
	if err := Copy(dir, func(string, string, []byte) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("the error of whoever keeps it: %v", err)
	}
}
