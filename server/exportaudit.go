package main

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// exportAudit writes a workspace's whole audit log, newest first, one JSON object per line. It
// requires the permissions of the connection auditLog, and has the same errors.
func (a *app) exportAudit(w http.ResponseWriter, r *http.Request) {
	m, err := a.mayExport(r)
	request := page.Request{Size: page.Max}
	var p page.Page[*workspace.LoggedEvent]
	if err == nil {
		err = a.Limits.Charge(r.Context(), exports, m.ActorID())
	}
	if err == nil {
		p, err = a.Workspaces.AuditLog(r.Context(), m, nil, request)
	}
	if err != nil {
		a.refuseExport(w, r, err)
		return
	}
	download(w, jsonLines, "audit-"+m.Slug()+".ndjson")
	for {
		if err := writeEvents(w, p.Items); err != nil {
			return // the client has disconnected
		}
		if !p.HasNext {
			return
		}
		request.After = p.Items[len(p.Items)-1].ID
		m, err = a.mayExport(r) // the download ends with the credential, at the latest a page later
		if err == nil {
			p, err = a.Workspaces.AuditLog(r.Context(), m, nil, request)
		}
		if err != nil {
			a.cutOff(r, err)
		}
	}
}

// mayExport proves that the caller may export the audit log of the workspace in the path.
func (a *app) mayExport(r *http.Request) (workspace.Membership, error) {
	ctx, err := a.Accounts.Authenticate(r.Context(), r.Header.Get("Authorization"))
	if err != nil {
		return workspace.Membership{}, err
	}
	actor, err := account.Current(ctx)
	if err != nil {
		return workspace.Membership{}, err
	}
	return a.Workspaces.Require(ctx, actor, r.PathValue("workspace"))
}

// linesDeadline is how long a client may take to read a hundred lines.
const linesDeadline = 30 * time.Second

func writeEvents(w http.ResponseWriter, events []*workspace.LoggedEvent) error {
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(linesDeadline)); err != nil {
		return err
	}
	lines := json.NewEncoder(w)
	for _, e := range events {
		if err := lines.Encode(e.Line()); err != nil {
			return err
		}
	}
	return control.Flush()
}
