package graph

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
)

// TestPlatformStats_AreAsOldAsTheSchemaStates compares the description with the statistics while the clock advances.
func TestPlatformStats_AreAsOldAsTheSchemaStates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		description := contract(t).Query.Fields.ForName("platformStats").Description
		if want := fmt.Sprintf("%.0f seconds old", platformAge.Seconds()); !strings.Contains(description, want) {
			t.Errorf("the schema says %q, not %q", description, want)
		}
		now := time.Now()
		b, ada := withAda(t, d, func(c *Config) { c.Now = func() time.Time { return now } })
		expect := func(links int) {
			t.Helper()
			r := b.ask(t, "", "{ platformStats { totalLinks } }")
			want := fmt.Sprintf(`{"platformStats":{"totalLinks":%d}}`, links)
			if string(r.Data) != want {
				t.Errorf("want %s, got %s", want, r.Text)
			}
		}
		expect(0)
		b.link(t, ada, "https://example.com/")
		now = now.Add(platformAge - time.Nanosecond)
		expect(0)
		now = now.Add(time.Nanosecond)
		expect(1)
	})
}
