package web

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

const (
	// minSpeed is how many bytes of a body a client has to send in a second, on average over each
	// progressWindow.
	minSpeed       = 16 << 10
	progressWindow = 10 * time.Second
)

// Progressing reads a body whose sender would keep others waiting, for memory or a turn. In each
// progressWindow of waiting for it, the sender has to send as many bytes as minSpeed demands, or the
// rest of the body; otherwise reading ends with errs.TooSlow. Time in which nobody reads does not
// count.
//
// It has no deadline once the whole body has arrived: the connection is read on, to notice a client
// that has gone.
type Progressing struct {
	// Body is one of Size bytes; a negative size is unknown.
	Body io.Reader
	Size int64
	// Until ends reading in any case; zero means never.
	Until time.Time
	// Deadline sets that of the connection, and Now is the clock.
	Deadline func(time.Time) error
	Now      func() time.Time

	// missing are the bytes that the present window demands, and left is its rest.
	missing int
	left    time.Duration
	read    int64
}

// NewProgressing returns the body of a request as a Progressing.
func NewProgressing(w http.ResponseWriter, r *http.Request) *Progressing {
	control := http.NewResponseController(w)
	return &Progressing{Body: r.Body, Size: r.ContentLength, Deadline: control.SetReadDeadline, Now: time.Now}
}

// LongestUpload is how long the slowest accepted client sends a body of a size.
func LongestUpload(size int64) time.Duration {
	return time.Duration(size/minSpeed)*time.Second + progressWindow
}

// Read implements io.Reader.
func (p *Progressing) Read(into []byte) (n int, err error) {
	if p.missing <= 0 {
		p.missing, p.left = minSpeed*int(progressWindow/time.Second), progressWindow
	}
	began := p.Now()
	end := began.Add(p.left)
	if !p.Until.IsZero() && p.Until.Before(end) {
		end = p.Until
	}
	if err := p.setDeadline(end); err != nil {
		return 0, err
	}
	n, err = p.Body.Read(into)
	p.missing -= n
	if p.read += int64(n); p.read == p.Size || errors.Is(err, io.EOF) {
		return n, cmp.Or(err, p.setDeadline(time.Time{}))
	}
	p.left -= p.Now().Sub(began)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errs.New(errs.TooSlow, "The body comes too slowly: send at least %d KiB in %s.",
			minSpeed*int(progressWindow/time.Second)>>10, progressWindow).Because(err)
	}
	return n, err
}

func (p *Progressing) setDeadline(at time.Time) error {
	if err := p.Deadline(at); err != nil && !errors.Is(err, http.ErrNotSupported) { // not every writer has a connection
		return err
	}
	return nil
}
