package web_test

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/web"
)

// sender is a body whose bytes arrive in pieces, each after a pause. It is its own clock, and the
// connection, whose reads end at the deadline.
type sender struct {
	body     *bytes.Reader
	piece    int
	pause    time.Duration
	now, end time.Time
}

func (s *sender) Read(into []byte) (int, error) {
	if arrives := s.now.Add(s.pause); s.body.Len() > 0 && !s.end.IsZero() && arrives.After(s.end) {
		s.now = s.end
		return 0, os.ErrDeadlineExceeded
	}
	s.now = s.now.Add(s.pause)
	return s.body.Read(into[:min(len(into), s.piece)])
}

// TestProgressing_EndsSilentBodies: a client has to send 160 KiB in ten seconds, or the rest.
func TestProgressing_EndsSilentBodies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		size, piece       int
		pause, work, took time.Duration
		until             time.Duration
		isSlow            bool
	}{
		{"silent", 64 << 20, 9, time.Hour, 0, 10 * time.Second, 0, true},
		{"nine bytes, then silent", 64 << 20, 9, 9 * time.Second, 0, 10 * time.Second, 0, true},
		{"a byte a second", 64 << 20, 1, time.Second, 0, 10 * time.Second, 0, true},
		{"slower than the least speed", 1 << 20, 15 << 10, time.Second, 0, 10 * time.Second, 0, true},
		{"the least speed", 1 << 20, 16 << 10, time.Second, 0, 64 * time.Second, 0, false},
		{"small and slow", 9, 1, time.Second, 0, 9 * time.Second, 0, false},
		{"fast, for a reader that is slow", 1 << 20, 256 << 10, time.Second, time.Minute, 4*time.Second + 5*time.Minute,
			0, false},
		{"longer than it may take", 1 << 20, 32 << 10, time.Second, 0, 30 * time.Second, 30 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &sender{body: bytes.NewReader(make([]byte, c.size)), piece: c.piece, pause: c.pause, now: dbtest.Noon}
			p := &web.Progressing{Body: s, Size: int64(c.size), Now: func() time.Time { return s.now },
				Deadline: func(at time.Time) error { s.end = at; return nil }}
			if c.until > 0 {
				p.Until = dbtest.Noon.Add(c.until)
			}
			read, err := int64(0), error(nil)
			for n := 0; err == nil && read < int64(c.size); read += int64(n) {
				s.now = s.now.Add(c.work)
				n, err = p.Read(make([]byte, 1<<20))
			}
			if errs.Is(err, errs.TooSlow) != c.isSlow || !c.isSlow && err != nil && err != io.EOF {
				t.Errorf("%v", err)
			}
			if took := s.now.Sub(dbtest.Noon); c.work == 0 && took != c.took {
				t.Errorf("it took %s, want %s", took, c.took)
			}
			if !c.isSlow && !s.end.IsZero() {
				t.Error("the connection has a deadline after the body")
			}
		})
	}
}
