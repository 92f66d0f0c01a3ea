package main

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/stores"
)

// exportURL requests an export of a workspace's clicks, with alternating names and values of further
// arguments, and returns the URL's path.
func (c client) exportURL(t *testing.T, workspaceID string, more ...any) string {
	t.Helper()
	in := map[string]any{"workspaceId": workspaceID}
	for i := 0; i < len(more); i += 2 {
		in[more[i].(string)] = more[i+1]
	}
	got := c.ask(t, `mutation ($in: ExportClicksInput!) { exportClicks(input: $in) { url } }`, map[string]any{"in": in})
	return strings.TrimPrefix(got.text("exportClicks.url"), c.server.public)
}

// TestExportURL_EndsWithItsCredential ends what has signed a URL. The next download fails on every
// node, without a delay.
func TestExportURL_EndsWithItsCredential(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes)
		who, other := nodes[0].tenant(t, "owner"), nodes[0].tenant(t, "other")
		who.admit(t, other, "VIEWER")
		revoked, revokedID := who.key(t, "STATS_READ")
		narrowed, narrowedID := who.key(t, "STATS_READ")
		for _, c := range []struct {
			name   string
			signer client
			status int
			end    func()
		}{
			{"key revoked", revoked, http.StatusGone, func() {
				who.do(t, "revokeApiKey", map[string]any{"id": revokedID})
			}},
			{"key without the scope", narrowed, http.StatusForbidden, func() {
				execute(t, b, "UPDATE api_keys SET scopes = 'LINKS_READ' WHERE id = ?", narrowedID)
			}},
			{"member removed", other.client, http.StatusNotFound, func() {
				who.do(t, "removeMember", map[string]any{"workspaceId": who.workspaceID, "userId": other.id})
			}},
			{"session logged out", who.client, http.StatusGone, func() { who.do(t, "logout", map[string]any{}) }},
		} {
			path := c.signer.exportURL(t, who.workspaceID)
			for _, node := range nodes {
				node.expect(t, http.StatusOK, http.MethodGet, path)
			}
			c.end()
			for _, node := range nodes {
				a := node.expect(t, c.status, http.MethodGet, path)
				if strings.Contains(a.body, "linkId") {
					t.Errorf("%s: clicks are in the answer: %s", c.name, a.body)
				}
			}
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

// exportedRows is more than exports read at once.
const exportedRows = 2500

// receive runs a handler, and returns how many lines the client got, and whether the connection was
// aborted. The function then runs once the first lines have been sent.
func receive(handle http.HandlerFunc, r *http.Request, then func()) (lines int, aborted bool) {
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
	settings := must.Value(config.Parse(map[string]string{"LINKFORGE_DATA_DIR": t.TempDir()}, stores.Checks))(t)
	a := must.Value(newApp(t.Context(), settings, slog.New(slog.DiscardHandler), io.Discard))(t)
	t.Cleanup(func() { must.NoError(t, a.close()) })
	site := httptest.NewServer(a.routes())
	t.Cleanup(site.Close)
	s := &server{t: t, address: strings.TrimPrefix(site.URL, "http://"), public: settings.PublicURL, http: newClient()}
	who := s.tenant(t, "ada")
	ctx, at := db.AsSystem(t.Context()), db.Instant(time.Now())
	const numbers = "WITH RECURSIVE counting (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counting WHERE n < ?) "
	must.Value(a.db.NewRaw(numbers+
		"INSERT INTO clicks (id, workspace_id, link_id, clicked_at, latency_ms, visit, bot, status) "+
		"SELECT n, ?, 'lnk', ?, 1, ?, ?, 302 FROM counting", exportedRows, who.workspaceID, at, false, false).
		Exec(ctx))(t)
	var events []*audit.Event
	for range exportedRows {
		events = append(events, audit.New(who.workspaceID, who.id, audit.LinkCreated, "lnk", nil, at))
	}
	must.Value(a.db.NewInsert().Model(&events).Returning("NULL").Exec(ctx))(t)

	for name, export := range map[string]struct {
		handle http.HandlerFunc
		lines  int // if the download stops
	}{
		"clicks": {a.exportClicks, 1000}, "audit log": {a.exportAudit, 100},
	} {
		session := client{server: s, token: s.login(t, who).Token}
		key, keyID := who.key(t, "STATS_READ", "AUDIT_READ")
		for kind, c := range map[string]struct {
			client
			end func()
		}{
			"session": {session, func() { session.do(t, "logout", map[string]any{}) }},
			"key":     {key, func() { who.do(t, "revokeApiKey", map[string]any{"id": keyID}) }},
		} {
			path := "/export/audit/" + who.workspaceID
			if name == "clicks" {
				path = c.exportURL(t, who.workspaceID, "format", "JSON_LINES")
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
			r.SetPathValue("workspace", who.workspaceID)
			r.Header.Set("Authorization", "Bearer "+c.token)
			if lines, aborted := receive(export.handle, r, func() {}); aborted || lines < exportedRows {
				t.Errorf("%s, the %s continues: %d lines; aborted: %t", name, kind, lines, aborted)
			}
			if lines, aborted := receive(export.handle, r, c.end); !aborted || lines != export.lines {
				t.Errorf("%s, the %s ends: %d lines, want %d; aborted: %t", name, kind, lines, export.lines, aborted)
			}
		}
	}
}
