package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// exportURL requests an export of a workspace's clicks, with alternating names and values of further
// arguments, and returns the URL's path.
func (c client) exportURL(t *testing.T, workspaceID string, more ...any) string {
	t.Helper()
	in := map[string]any{"workspaceId": workspaceID}
	for i := 0; i < len(more); i += 2 {
		in[more[i].(string)] = more[i+1]
	}
	var got struct{ ExportClicks struct{ URL string } }
	c.must(t, &got, `mutation ($in: ExportClicksInput!) { exportClicks(input: $in) { url } }`, map[string]any{"in": in})
	return strings.TrimPrefix(got.ExportClicks.URL, c.server.public)
}

// TestExportURL_EndsWithItsCredential ends what has signed a URL. The next download fails on every
// node, without a delay.
func TestExportURL_EndsWithItsCredential(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		status int
		// end signs a URL, and returns its path and what ends the credential.
		end func(t *testing.T, b backend, who, other tenant) (path string, end func())
	}{
		{"key revoked", http.StatusGone, func(t *testing.T, _ backend, who, _ tenant) (string, func()) {
			key, keyID := who.key(t, "STATS_READ")
			return key.exportURL(t, who.workspaceID), func() {
				who.do(t, "revokeApiKey", map[string]any{"id": keyID})
			}
		}},
		{"key without the scope", http.StatusForbidden, func(t *testing.T, b backend, who, _ tenant) (string, func()) {
			key, keyID := who.key(t, "STATS_READ")
			return key.exportURL(t, who.workspaceID), func() {
				execute(t, b, "UPDATE api_keys SET scopes = 'LINKS_READ' WHERE id = ?", keyID)
			}
		}},
		{"session logged out", http.StatusGone, func(t *testing.T, _ backend, who, _ tenant) (string, func()) {
			return who.exportURL(t, who.workspaceID), func() {
				who.must(t, new(any), `mutation { logout(input: {}) { loggedOut } }`, nil)
			}
		}},
		{"member removed", http.StatusNotFound, func(t *testing.T, _ backend, who, other tenant) (string, func()) {
			return other.exportURL(t, who.workspaceID), func() {
				who.do(t, "removeMember", map[string]any{"workspaceId": who.workspaceID, "userId": other.id})
			}
		}},
	}
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes)
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				who, other := nodes[0].tenant(t, fmt.Sprint("owner-", i)), nodes[0].tenant(t, fmt.Sprint("other-", i))
				who.admit(t, other, "VIEWER")
				path, end := c.end(t, b, who, other)
				for _, node := range nodes {
					node.expect(t, http.StatusOK, http.MethodGet, path)
				}
				end()
				for _, node := range nodes {
					a := node.expect(t, c.status, http.MethodGet, path)
					if strings.Contains(a.body, "linkId") {
						t.Errorf("clicks are in the answer: %s", a.body)
					}
				}
			})
		}
	})
}

// stopper is a client that does something once the first part of a download has reached it.
type stopper struct {
	*httptest.ResponseRecorder
	then func()
	done bool
}

func (s *stopper) SetWriteDeadline(time.Time) error { return nil }

func (s *stopper) FlushError() error {
	if !s.done {
		s.done = true
		s.then()
	}
	return nil
}

// exporting is as much of a server as exports need, with a workspace and a session in it.
type exporting struct {
	*app
	owner workspace.Membership
	actor account.Actor
}

func newExporting(t *testing.T, d *db.DB) *exporting {
	t.Helper()
	now := func() time.Time { return time.Now().UTC() }
	opened := must.Value(stores.Open(stores.Options{
		Config: config.Config{
			PublicURL: "http://sho.rt", JWTSecrets: [][]byte{[]byte(strings.Repeat("s", 32))}, TokenTTL: time.Hour,
		},
		DB: d, Log: slog.New(slog.DiscardHandler), Now: now,
	}))(t)
	e := &exporting{app: &app{Stores: opened, log: slog.New(slog.DiscardHandler), now: now, db: d}}
	e.actor = workspacetest.Actor(t, d)
	e.owner = workspacetest.Of(t, d, e.actor, "ada")
	return e
}

// exportedRows is more than exports read at once.
const exportedRows = 2500

// fill writes clicks and audit events.
func (e *exporting) fill(t *testing.T) {
	t.Helper()
	ctx, at := db.AsSystem(t.Context()), db.Instant(e.now())
	if e.db.Kind == db.Postgres {
		must.Value(e.db.NewRaw("SELECT keep_month(date_trunc('month', ?::timestamptz, 'UTC'))", at).Exec(ctx))(t)
	}
	const numbers = "WITH RECURSIVE counting (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counting WHERE n < ?) "
	must.Value(
		e.db.NewRaw("INSERT INTO clicks (id, workspace_id, link_id, clicked_at, latency_ms, visit, bot, status) "+
			""+numbers+
			"SELECT n, ?, 'lnk', ?, 1, ?, ?, 302 FROM counting", exportedRows, e.owner.ID(), at, false, false).
			Exec(ctx))(t)
	var events []*audit.Event
	for range exportedRows {
		events = append(events, audit.New(e.owner.ID(), e.actor.AccountID, audit.LinkCreated, "lnk", nil, at))
	}
	must.Value(e.db.NewInsert().Model(&events).Returning("NULL").Exec(ctx))(t)
}

// session begins a session of the owner, and returns it as an actor, its token and what ends it.
func (e *exporting) session(t *testing.T) (actor account.Actor, token string, end func()) {
	t.Helper()
	actor, at := account.Actor{AccountID: e.actor.AccountID, SessionID: id.New(id.Session)}, db.Instant(e.now())
	s := &account.Session{ID: actor.SessionID, AccountID: actor.AccountID, CreatedAt: at, UsedAt: at,
		ExpiresAt: at.Add(time.Hour)}
	must.Value(e.db.NewInsert().Model(s).Exec(db.AsSystem(t.Context())))(t)
	token, _, err := e.Accounts.Tokens.Issue(actor, e.now())
	must.NoError(t, err)
	return actor, token, func() {
		if err := e.Accounts.Logout(t.Context(), actor, actor.SessionID); err != nil {
			t.Error(err)
		}
	}
}

// clicksAs is a request for the clicks by a URL that the actor has signed.
func (e *exporting) clicksAs(t *testing.T, actor account.Actor) *http.Request {
	t.Helper()
	m, err := e.Workspaces.Require(t.Context(), actor, e.owner.ID())
	must.NoError(t, err)
	s, err := e.Stats.Stats(t.Context(), m, clickstore.Subject{}, nil, "", clickstore.Filter{})
	must.NoError(t, err)
	url, _, err := e.Exports.SignExport(s, nil, stats.JSONLines, false, actor.SessionID)
	must.NoError(t, err)
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
}

// auditLogAs is a request for the audit log with a token or an API key.
func (e *exporting) auditLogAs(t *testing.T, token string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/export/audit/"+e.owner.ID(), http.NoBody)
	r.SetPathValue("workspace", e.owner.ID())
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// key creates an API key, and returns it as an actor, its secret and what revokes it.
func (e *exporting) key(t *testing.T) (actor account.Actor, secret string, revoke func()) {
	t.Helper()
	key, secret, err := e.APIKeys.Create(t.Context(), e.owner, apikey.NewKey{
		Name: "key", Scopes: []workspace.Permission{workspace.ReadStats, workspace.ReadAudit}})
	must.NoError(t, err)
	actor.Key, err = e.APIKeys.Authenticate(t.Context(), secret)
	must.NoError(t, err)
	return actor, secret, func() {
		if _, err := e.APIKeys.Revoke(t.Context(), e.owner, key.ID); err != nil {
			t.Error(err)
		}
	}
}

// receive runs a handler, and returns how many lines the client got, and whether the connection was
// aborted. The function then runs once the first lines have been sent.
func receive(t *testing.T, handle http.HandlerFunc, r *http.Request, then func()) (lines int, aborted bool) {
	t.Helper()
	w := &stopper{ResponseRecorder: httptest.NewRecorder(), then: then}
	defer func() {
		lines = strings.Count(w.Body.String(), "\n")
		p := recover()
		if err, _ := p.(error); p != nil && !errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		aborted = p != nil
	}()
	handle(w, r)
	return 0, false
}

// TestExport_StopsWhenTheCredentialEnds ends the session or the API key during a download: the
// client receives the data sent so far, and the connection is aborted.
func TestExport_StopsWhenTheCredentialEnds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		e := newExporting(t, d)
		e.fill(t)
		session, token, logout := e.session(t)
		_, otherToken, logoutOther := e.session(t)
		key, secret, revoke := e.key(t)
		_, otherSecret, revokeOther := e.key(t)
		bySession, byKey := e.clicksAs(t, session), e.clicksAs(t, key)
		for _, c := range []struct {
			name   string
			handle http.HandlerFunc
			r      *http.Request
			end    func()
			lines  int // if the download stops
		}{
			{"clicks, session continues", e.exportClicks, bySession, func() {}, 0},
			{"clicks, key continues", e.exportClicks, byKey, func() {}, 0},
			{"audit log, session continues", e.exportAudit, e.auditLogAs(t, token), func() {}, 0},
			{"audit log, key continues", e.exportAudit, e.auditLogAs(t, secret), func() {}, 0},
			{"clicks, session ends", e.exportClicks, bySession, logout, 1000},
			{"clicks, key is revoked", e.exportClicks, byKey, revoke, 1000},
			{"audit log, session ends", e.exportAudit, e.auditLogAs(t, otherToken), logoutOther, 100},
			{"audit log, key is revoked", e.exportAudit, e.auditLogAs(t, otherSecret), revokeOther, 100},
		} {
			t.Run(c.name, func(t *testing.T) {
				lines, aborted := receive(t, c.handle, c.r, c.end)
				if stops := c.lines > 0; aborted != stops || stops && lines != c.lines ||
					!stops && lines < exportedRows {
					t.Errorf("%d lines, want %d; aborted: %t", lines, c.lines, aborted)
				}
			})
		}
	})
}
