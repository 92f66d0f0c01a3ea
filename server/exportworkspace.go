package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/move/archive"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
)

// archiveRanges is how many parts of archives a caller may request.
var archiveRanges = ratelimit.Rate{Name: "archive ranges", Attempts: 6000, Window: time.Hour}

// exportWorkspace sends the archive of a signed URL, or the requested ranges of it.
func (a *app) exportWorkspace(w http.ResponseWriter, r *http.Request) {
	d, err := a.Archives.OpenDownload(r.PathValue("token"))
	if err == nil {
		err = a.Limits.Charge(r.Context(), archiveRanges, d.ActorID)
	}
	var report *archive.Report
	var file *task.File
	if err == nil {
		report, file, err = a.openArchive(r.Context(), d)
	}
	if err != nil {
		a.refuseExport(w, r, err)
		return
	}
	if strings.Contains(r.Header.Get("Range"), ",") { // several ranges could read the same chunks again and again
		r.Header.Del("Range")
	}
	download(w, "application/gzip", report.Name())
	w.Header().Set("ETag", `"`+*report.SHA256()+`"`)
	w.Header().Set("Referrer-Policy", "no-referrer") // the URL is a secret for as long as it is good
	content := &sentArchive{File: file, control: http.NewResponseController(w), check: func() error {
		_, _, err := a.openArchive(r.Context(), d)
		return err
	}}
	http.ServeContent(w, r, "", report.StartedAt(), content)
	if content.err != nil {
		a.cutOff(r, content.err)
	}
}

// openArchive returns the archive of a grant, for as long as its credential may read it. It returns
// the errors of memberOfGrant, Forbidden, and Expired for an archive that was removed.
func (a *app) openArchive(ctx context.Context, d *task.FileGrant) (*archive.Report, *task.File, error) {
	m, err := a.memberOfGrant(ctx, &d.Grant)
	if err != nil {
		return nil, nil, err
	}
	return a.Archives.Open(ctx, m, d)
}

// checkEvery is how many bytes of an archive are sent before the credential is checked again.
const checkEvery = 8 << 20

// sentArchive is an archive that a client reads at its pace.
type sentArchive struct {
	*task.File
	control *http.ResponseController
	check   func() error
	sent    int64
	// err is why reading has ended early.
	err error
}

// Read implements io.Reader. http.ServeContent calls it after it has sent the previous part.
func (s *sentArchive) Read(into []byte) (n int, err error) {
	if s.sent >= checkEvery {
		s.sent, err = 0, s.check()
	}
	if err == nil {
		err = s.control.SetWriteDeadline(time.Now().Add(linesDeadline))
	}
	if err == nil {
		n, err = s.File.Read(into)
	}
	s.sent += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
