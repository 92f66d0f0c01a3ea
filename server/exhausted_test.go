package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// TestCreateLink_CodesExhausted takes the ten codes of a URL with custom links. The next creation
// is refused with a message that states the cause, and is counted and logged without the URL; links
// codes lists the holders.
func TestCreateLink_CodesExhausted(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const url = "https://example.com/reset?token=secret"
		admin := proctest.FreeAddress()
		s := start(t, b, "LINKFORGE_ADMIN_LISTEN="+admin)
		who := s.tenant(t, "exhausted")
		var codes []string
		for _, code := range shortcode.Candidates(url, who.workspaceID) {
			codes = append(codes, code)
		}
		for i, code := range codes[1:] {
			who.shorten(t, fmt.Sprintf("https://example.com/%d", i), "customCode", code)
		}
		holders := []string{"links", "codes", "--workspace", who.workspaceID, url}
		rows := rowsOf(t, s.env, holders...)
		if len(rows) != len(codes) || rows[0]["state"] != "FREE" || rows[0]["link"] != nil ||
			rows[1]["state"] != "TAKEN" {
			t.Errorf("one code is free: %v", rows)
		}
		first := who.shorten(t, "https://example.com/first", "customCode", codes[0]).Link

		refused := must.Value(who.create(url))(t).Errors
		if len(refused) != 1 || refused[0].Code != "CODE_EXHAUSTED" ||
			!strings.Contains(refused[0].Message, "All 10 codes of this URL are taken") {
			t.Fatalf("%+v, want CODE_EXHAUSTED", refused)
		}
		if shown := scrape(t, admin); !strings.Contains(shown, "\nlinkforge_code_exhausted_total 1\n") {
			t.Error("linkforge_code_exhausted_total is not 1")
		}
		logged := content(t, s.err)
		if strings.Count(logged, "codes exhausted") != 1 || !strings.Contains(logged, who.workspaceID) ||
			strings.Contains(logged, "token=secret") {
			t.Errorf("want one log line with the workspace and without the URL:\n%s", logged)
		}
		rows = rowsOf(t, s.env, holders...)
		holder, _ := rows[0]["link"].(map[string]any)
		if rows[0]["code"] != codes[0] || rows[0]["state"] != "TAKEN" || holder["id"] != first.ID ||
			holder["slug"] != "exhausted" || holder["strategy"] != "CUSTOM" || holder["status"] != "ACTIVE" ||
			holder["purged"] != false {
			t.Errorf("all codes are taken: %v", rows)
		}
		wantTable(t, s.env, strings.Join(holders, " "), "CODE STATE HELD BY WORKSPACE STATUS STRATEGY URL", first.ID)
	})
}
