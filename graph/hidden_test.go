package graph

import (
	"testing"

	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestQueryLink_TakesTheSameStatementsForUnknownAndForeignLinks keeps response times from revealing
// which codes exist.
func TestQueryLink_TakesTheSameStatementsForUnknownAndForeignLinks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada, eve := b.person(t, "ada"), b.person(t, "eve")
		l, _, err := b.Creation.Create(t.Context(), ada.workspace, creation.Input{URL: "https://example.com/"})
		must.NoError(t, err)
		statements := func(shortURL string) int64 {
			before := b.statements.Load()
			r := b.ask(t, eve.token, `query ($url: String!) { link(by: {shortUrl: $url}) { id } }`, "url", shortURL)
			if string(r.Data) != `{"link":null}` || len(r.Errors) > 0 {
				t.Fatalf("%s: %s", shortURL, r.text)
			}
			return b.statements.Load() - before
		}
		statements(b.Links.ShortURL(l)) // reads the account
		unknown, foreign := statements("http://sho.rt/ada/never"), statements(b.Links.ShortURL(l))
		if unknown != foreign {
			t.Errorf("%d statements for an unknown link, %d for one of another workspace", unknown, foreign)
		}
	})
}
