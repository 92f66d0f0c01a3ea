package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// TestDrain_IsAnnouncedByReadiness before it does: for as long as LINKFORGE_DRAIN_DELAY it is not ready,
// and does everything else.
func TestDrain_IsAnnouncedByReadiness(t *testing.T) {
	t.Parallel()
	const delay = 5 * time.Second
	eachBackend(t, func(t *testing.T, b backend) {
		admin := proctest.FreeAddress()
		leaving := start(t, b, "LINKFORGE_DRAIN_DELAY="+delay.String(), "LINKFORGE_ADMIN_LISTEN="+admin)
		staying := leaving
		if b.nodes > 1 {
			staying = start(t, b, "LINKFORGE_PUBLIC_URL="+leaving.public)
		}
		who := leaving.tenant(t, "commuters")
		kept, removed := who.shorten(t, "https://example.com/kept").Link, who.shorten(t, "https://example.com/removed").
			Link
		for _, l := range []linkView{kept, removed} {
			if leaving.closesAfter(t, l.path(leaving)) {
				t.Error("before the signal, an answer ends the connection")
			}
		}

		began := time.Now()
		leaving.terminate()
		leaving.awaitStatus(http.StatusServiceUnavailable)
		if !leaving.closesAfter(t, kept.path(leaving)) {
			t.Error("after the signal, an answer keeps the connection")
		}
		leaving.expect(t, http.StatusOK, "GET", "/livez")
		same(t, "linkforge_ready", metric(t, admin, "linkforge_ready"), "0")
		who.shorten(t, "https://example.com/made-while-leaving")
		who.onServer(staying).remove(t, removed.ID) // the node still receives changes
		polltest.Until(t, "a link that was deleted elsewhere is gone here", func() bool {
			a := must.Value(leaving.get(removed.path(leaving)))(t)
			return a.status == http.StatusNotFound
		})
		leaving.awaitExit()
		if took := time.Since(began); took < delay || took > delay+drainDeadline {
			t.Errorf("leaving took %s", took)
		}
		leaving.again()
		same(t, "clicks", who.getLink(t, kept.ID).ClickCount, 2)
	})
}

// awaitStatus waits for an answer of /readyz: no answer at all is none.
func (s *server) awaitStatus(status int) {
	s.t.Helper()
	polltest.Until(s.t, "/readyz answers "+http.StatusText(status), func() bool {
		a, err := s.get("/readyz")
		if err != nil {
			s.t.Fatal(err)
		}
		return a.status == status
	})
}

// closesAfter follows a short URL, and reports whether the answer ends the connection.
func (s *server) closesAfter(t *testing.T, path string) bool {
	t.Helper()
	return s.expect(t, http.StatusFound, http.MethodGet, path).header.Get("Connection") == "close"
}
