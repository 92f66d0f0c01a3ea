package linklist

import (
	"context"
	"fmt"
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
)

// found returns the number of links of the workspace that a search finds.
func (b *bundle) found(t *testing.T, search string) int {
	t.Helper()
	got := must.Value(b.List(t.Context(), b.mine, &Filter{Search: &search}, page.Request{Size: 100}))(t)
	return len(got.Items)
}

// TestIndex_FindsTextsInEachState: a search finds a text before and after it was indexed and
// changed, and only its present words.
func TestIndex_FindsTextsInEachState(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.create(t, creation.Input{URL: "https://example.com/a", Note: new("a zebrafish")})
		for range 2 * indexBatch / 100 { // more than one batch
			var some []*creation.Input
			for i := range 100 {
				some = append(some,
					&creation.Input{URL: fmt.Sprint("https://example.com/other/", i), Strategy: new(link.Random)})
			}
			must.Value(b.links.CreateMany(t.Context(), b.mine, creation.Batch{Links: some}))(t)
		}
		expect := func(state string, zebrafish, antelope int) {
			t.Helper()
			if got := b.found(t, "zebrafish"); got != zebrafish {
				t.Errorf("%s: %d links with the first word, want %d", state, got, zebrafish)
			}
			if got := b.found(t, "antelope"); got != antelope {
				t.Errorf("%s: %d links with the second word, want %d", state, got, antelope)
			}
		}
		index := func() {
			t.Helper()
			must.NoError(t, b.IndexAll(t.Context()))
		}
		expect("created", 1, 0)
		index()
		expect("indexed", 1, 0)
		must.Value(b.edit.Update(t.Context(), b.mine, link.Change{
			ID: l.ID, Note: optional.Edit[*string]{Set: true, To: new("an antelope")},
		}))(t)
		expect("changed", 0, 1)
		index()
		expect("changed and indexed", 0, 1)
	})
}

// TestIndex_SkipsLockedLinks: links that a change has locked stay in the queue, and the others are
// indexed meanwhile.
func TestIndex_SkipsLockedLinks(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	b := setup(t, d)
	changed := b.create(t, creation.Input{URL: "https://example.com/changed"})
	b.create(t, creation.Input{URL: "https://example.com/other"})
	removed := b.create(t, creation.Input{URL: "https://example.com/removed"})
	waiting := func(ctx context.Context) int64 {
		t.Helper()
		must.NoError(t, b.IndexAll(ctx))
		n := must.Value(d.NewSelect().Table("link_text_queue").Count(db.AsSystem(ctx)))(t)
		return n
	}
	// A queued link that does not exist, as after the deletion of a link that was
	// moved to another workspace.
	const rename = "UPDATE link_text_queue SET link_id = 'none' WHERE link_id = ?"
	must.Value(d.ExecContext(db.AsSystem(t.Context()), rename, removed.ID))(t)
	dbtest.WhileLocked(t, d, "links", "id = '"+changed.ID+"'", func(ctx context.Context) {
		if n := waiting(ctx); n != 1 {
			t.Errorf("%d texts wait while one link is locked, want 1", n)
		}
	})
	if n := waiting(t.Context()); n != 0 {
		t.Errorf("%d texts wait after the change, want 0", n)
	}
}
