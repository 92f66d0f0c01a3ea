package main

import (
	"io"
	"net/http"
	"time"

	"github.com/linkforge/linkforge/internal/admission"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/web"
)

// uploadRate is how many uploads a caller may begin.
var uploadRate = ratelimit.Rate{Name: "uploads", Attempts: 60, Window: time.Hour}

// maxUploads bounds the uploads that a node receives at once: each needs a megabyte of memory.
const maxUploads = 16

// uploadPause is how long a client may send nothing.
const uploadPause = 30 * time.Second

// newUploads returns the gate of uploads.
func newUploads() *admission.Gate {
	return admission.New(admission.Config{Name: "uploads", Capacity: maxUploads, Share: 2, Waiting: 4, Queue: 64, MaxWait: uploadPause})
}

// upload stores the file of an import that waits for it: 201. Nothing has changed after another response, and the client may
// repeat the request.
func (a *app) upload(w http.ResponseWriter, r *http.Request) {
	err := a.receive(w, r)
	if err == nil {
		w.WriteHeader(http.StatusCreated)
		return
	}
	e := errs.From(err)
	if e.Kind == errs.Internal && r.Context().Err() == nil {
		a.log.ErrorContext(r.Context(), "upload failed", "error", err)
	}
	status := e.Kind.Status()
	if r.ContentLength < 0 {
		status = http.StatusLengthRequired
	}
	w.Header().Set("Connection", "close") // the rest of the file is not read
	web.RefuseJSON(w, status, e.Kind.Code(), e.Public())
}

func (a *app) receive(w http.ResponseWriter, r *http.Request) error {
	u, err := a.Imports.OpenUpload(r.PathValue("token"))
	if err != nil {
		return err
	}
	switch {
	case r.ContentLength < 0:
		return errs.New(errs.BadRequest, "Say the size of the file with Content-Length.")
	case r.ContentLength > a.config.ImportBytes:
		return errs.New(errs.TooLarge, "The file has %d bytes, at most %d are accepted. Split it.", r.ContentLength, a.config.ImportBytes)
	}
	if err := a.Limits.Charge(r.Context(), uploadRate, u.ActorID); err != nil {
		return err
	}
	m, err := a.signer(r.Context(), &u.Grant)
	if err != nil {
		return err
	}
	leave, err := a.uploads.Enter(r.Context(), u.ActorID, 1)
	if err != nil {
		return err
	}
	defer leave()
	return a.Tasks.Receive(r.Context(), m, u.TaskID, &patient{http.NewResponseController(w), r.Body}, r.ContentLength)
}

// patient reads a body for as long as the client goes on sending it.
type patient struct {
	control *http.ResponseController
	body    io.Reader
}

func (p *patient) Read(into []byte) (int, error) {
	later := time.Now().Add(uploadPause)
	if err := p.control.SetReadDeadline(later); err != nil {
		return 0, err
	}
	if err := p.control.SetWriteDeadline(later.Add(uploadPause)); err != nil {
		return 0, err
	}
	return p.body.Read(into)
}
