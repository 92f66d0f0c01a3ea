package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestStore_VerifyFindsDifferences damages the history of a link in every way that Verify is for.
func TestStore_VerifyFindsDifferences(t *testing.T) {
	t.Parallel()
	damages := []struct{ statement, want string }{
		{"DELETE FROM link_versions WHERE number = 2 AND link_id = ?", "version 2 is missing before 3"},
		{"DELETE FROM link_versions WHERE number = 1 AND link_id = ?", "the versions before 2 are missing"},
		{"DELETE FROM link_versions WHERE number = 3 AND link_id = ?", "version 3 is missing before 4"},
		{"UPDATE link_versions SET ends_at = starts_at WHERE number = 2 AND link_id = ?", "but 3 begins at"},
		{"UPDATE link_versions SET snapshot = '{\"url\":\"https://example.com/forged\"}' WHERE number = 2 AND " +
			"link_id = ?",
			"but the versions differ in"},
		{"UPDATE links SET title = 'Forged' WHERE id = ?", "of version 4 has the changes"},
		{"DELETE FROM link_tags WHERE link_id = ?", "of version 4 has the changes"},
		{"UPDATE links SET version = 5 WHERE id = ?", "version 4 is missing before 5"},
		{"DELETE FROM audit_events WHERE version = 3 AND target_id = ?", "version 3 has no event"},
		{"UPDATE audit_events SET version = 2 WHERE version = 3 AND target_id = ?", "version 2 has 2 events"},
		{"UPDATE audit_events SET version = 7 WHERE version = 3 AND target_id = ?", "names version 7 of 4"},
		{"UPDATE audit_events SET changes = NULL WHERE version = 3 AND target_id = ?", "but the versions differ in"},
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := creationtest.New(t, d)
		var links []*link.Link
		for i := range damages {
			l := b.Make(t, creation.Input{URL: fmt.Sprint("https://example.com/", i), Strategy: new(link.Random)})
			for _, c := range []link.Change{
				{Title: to(new("First"))}, {Note: to(new("Second"))}, {Tags: to([]string{"third"})},
			} {
				b.Tick()
				b.Change(t, l, c)
			}
			links = append(links, l)
		}
		if got := b.Differences(t); len(got) > 0 {
			t.Fatalf("intact histories: %v", got)
		}
		for i, damage := range damages {
			must.Value(d.NewRaw(damage.statement, links[i].ID).Exec(db.AsSystem(t.Context())))(t)
		}
		got := b.Differences(t)
		for i, damage := range damages {
			if found := strings.Join(got[links[i].ID], "\n"); !strings.Contains(found, damage.want) {
				t.Errorf("after %q: %q, want %q", damage.statement, found, damage.want)
			}
		}
	})
}
