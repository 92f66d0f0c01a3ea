package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestAdopt_IngestsLogOfARemovedNode has a node answer redirects while the database takes no
// clicks, and kills it. Its folder comes to no other node: the operator adopts it.
func TestAdopt_IngestsLogOfARemovedNode(t *testing.T) {
	t.Parallel()
	nextMonth(t)
	b := production(t)
	b.fails = true // clicks wait for the database
	left, stays := t.TempDir(), t.TempDir()
	leaving, staying := start(t, b.inProcesses(), "LINKFORGE_DATA_DIR="+left), start(t, b, "LINKFORGE_DATA_DIR="+stays)
	who := staying.tenant(t, "adopted")
	l := who.shorten(t, "https://example.com/").Link
	limited := who.shorten(t, "https://example.com/limited", "maxClicks", 100).Link
	const followed, limitedBy = 40, 7
	d := must.Value(b.open())(t)
	defer d.Close()
	must.NoError(t, d.Tx(db.AsOwner(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.ExecContext(ctx, "LOCK TABLE click_totals IN SHARE ROW EXCLUSIVE MODE") // nobody can write clicks
		for i := range followed + limitedBy {
			path := l.path(staying)
			if i < limitedBy {
				path = limited.path(staying)
			}
			leaving.expect(t, http.StatusFound, http.MethodGet, path)
		}
		leaving.kill()
		return err
	}))
	if n := who.getLink(t, l.ID).ClickCount; n != 0 {
		t.Fatalf("the database has %d clicks already", n)
	}
	adopt := func(what, dir, want string) {
		t.Helper()
		if out := succeed(t, staying.env, "clicks", "adopt", "--json", dir); !strings.Contains(out, want) {
			t.Errorf("%s: %s, want %s", what, out, want)
		}
	}
	adopt("adopted", left, fmt.Sprintf(`{"logs":1,"clicks":%d,"held":[],`, followed+limitedBy))
	for range 2 {
		adopt("adopted again", filepath.Join(left, "clicks"), `{"logs":0,"clicks":0,"held":[],`)
		if got := who.getLink(t, l.ID); got.ClickCount != followed || got.HitQuota.Used != followed {
			t.Errorf("%+v, want %d clicks", got, followed)
		}
	}
	rest := 0 // unused hits of the node are available again
	for staying.expectOneOf(t, limited.path(staying), http.StatusFound, http.StatusGone) == http.StatusFound {
		rest++
	}
	if rest != 100-limitedBy {
		t.Errorf("the limited link answered %d more times, want %d", rest, 100-limitedBy)
	}

	adopt("of a node that lives", stays, `{"logs":0,"clicks":0,"held":["`)
	staying.expect(t, http.StatusFound, http.MethodGet, l.path(staying))
	polltest.Until(t, "the next click is counted", func() bool { return who.getLink(t, l.ID).ClickCount == followed+1 })
	succeed(t, staying.env, "stats", "verify")
}

func TestAdopt_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	declined(t, onSQLite(t.TempDir()).env, "there is no database yet", "clicks", "adopt", t.TempDir())
	s := start(t, embedded(t))
	declined(t, s.env, "move them into", "clicks", "adopt", t.TempDir())
	b := production(t)
	declined(t, b.env, "there is no folder", "clicks", "adopt", filepath.Join(t.TempDir(), "nowhere"))
	home := t.TempDir() // logs are removed: nothing else may be taken for one
	precious := filepath.Join(home, "precious", "letter.txt")
	keepFile(t, precious, []byte("kept"))
	declined(t, b.env, "precious", "clicks", "adopt", home)
	if kept, err := os.ReadFile(precious); err != nil || string(kept) != "kept" {
		t.Errorf("it was %q: %v", kept, err)
	}
	if got := filesIn(t, filepath.Dir(precious)); len(got) != 1 {
		t.Errorf("there are %q", got)
	}
}
