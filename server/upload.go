package main

import (
	"net/http"
	"time"

	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/web"
)

// uploadRate is how many uploads may begin of the workspaces of an account.
var uploadRate = ratelimit.Rate{Name: "uploads", Attempts: 240, Window: time.Hour}

// maxUploads bounds the uploads that a node receives at once: each needs a megabyte of memory.
// maxUploadsOfAccount is the part of the account that is responsible for their workspaces.
const (
	maxUploads          = 16
	maxUploadsOfAccount = 2
)

// uploadWait bounds the wait for other uploads, and the time for the response.
const uploadWait = 30 * time.Second

// newUploads returns the queue of uploads.
func newUploads() *admission.Queue {
	return admission.New(admission.Config{Name: "uploads", Capacity: maxUploads, Share: maxUploadsOfAccount, Waiting: 4,
		AllWaiting: 64, MaxWait: uploadWait})
}

// upload stores the file of an import that waits for it: 201. Nothing has changed after another
// response, and the client may repeat the request.
func (a *app) upload(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.ContentLength < 0:
		web.RefuseJSON(w, http.StatusLengthRequired, errs.BadRequest.Code(),
			"Say the size of the file with Content-Length.")
		return
	case r.Header.Get("Content-Encoding") != "":
		web.RefuseJSON(w, http.StatusUnsupportedMediaType, errs.BadRequest.Code(),
			"Send the file without Content-Encoding.")
		return
	}
	err := a.receive(w, r)
	if err == nil {
		w.WriteHeader(http.StatusCreated)
		return
	}
	e := errs.From(err)
	if e.Kind == errs.Internal && r.Context().Err() == nil {
		a.log.ErrorContext(r.Context(), "upload failed", "error", err)
	}
	w.Header().Set("Connection", "close") // the rest of the file is not read
	web.SetRetryAfter(w, e.Retry())
	web.RefuseJSON(w, e.Kind.Status(), e.Kind.Code(), e.Public())
}

func (a *app) receive(w http.ResponseWriter, r *http.Request) error {
	u, err := a.Imports.OpenUpload(r.PathValue("token"))
	if err != nil {
		return err
	}
	if r.ContentLength > a.config.ImportBytes {
		return errs.New(errs.TooLarge, "The file has %d bytes, at most %d are accepted. Split it.", r.ContentLength,
			a.config.ImportBytes)
	}
	m, err := a.memberOfGrant(r.Context(), &u.Grant)
	if err != nil {
		return err
	}
	account, err := a.Workspaces.ResponsibleFor(r.Context(), m.ID())
	if err != nil {
		return err
	}
	if err := a.Limits.Charge(r.Context(), uploadRate, account); err != nil {
		return err
	}
	turn, err := a.uploads.Enter(r.Context(), 1, account)
	if err != nil {
		return err
	}
	defer turn.Leave()
	end := time.Now().Add(web.LongestUpload(r.ContentLength) + uploadWait)
	if err := http.NewResponseController(w).SetWriteDeadline(end); err != nil {
		return err
	}
	return a.Tasks.Receive(r.Context(), m, u.TaskID, web.NewProgressing(w, r), r.ContentLength)
}
