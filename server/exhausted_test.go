package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/link/shortcode"
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
		codes := []string{}
		for _, code := range shortcode.Candidates(url, who.workspaceID) {
			codes = append(codes, code)
		}
		for i, code := range codes[1:] {
			who.shorten(t, fmt.Sprintf("https://example.com/%d", i), "customCode", code)
		}
		rows := rowsOf(t, s.env, "links", "codes", "--workspace", who.workspaceID, url)
		if len(rows) != len(codes) || rows[0]["state"] != "FREE" || rows[0]["link"] != nil ||
			rows[1]["state"] != "TAKEN" {
			t.Errorf("one code is free: %v", rows)
		}
		first := who.shorten(t, "https://example.com/first", "customCode", codes[0]).Link

		refused, err := who.create(url)
		if err != nil || len(refused.Errors) != 1 || refused.Errors[0].Code != "CODE_EXHAUSTED" {
			t.Fatalf("%+v: %v, want CODE_EXHAUSTED", refused, err)
		}
		for _, part := range []string{"All 10 codes of this URL are taken", "customCode", "RANDOM"} {
			if !strings.Contains(refused.Errors[0].Message, part) {
				t.Errorf("message %q, want %q in it", refused.Errors[0].Message, part)
			}
		}
		if shown := scrape(t, admin); !strings.Contains(shown, "\nlinkforge_code_exhausted_total 1\n") {
			t.Error("linkforge_code_exhausted_total is not 1")
		}
		logged := content(t, s.err)
		if strings.Count(logged, "codes exhausted") != 1 || !strings.Contains(logged, who.workspaceID) ||
			strings.Contains(logged, "token=secret") {
			t.Errorf("want one log line with the workspace and without the URL:\n%s", logged)
		}
		rows = rowsOf(t, s.env, "links", "codes", "--workspace", who.workspaceID, url)
		holder, _ := rows[0]["link"].(map[string]any)
		if rows[0]["code"] != codes[0] || rows[0]["state"] != "TAKEN" || holder["id"] != first.ID ||
			holder["slug"] != "exhausted" ||
			holder["strategy"] != "CUSTOM" || holder["status"] != "ACTIVE" || holder["purged"] != false {
			t.Errorf("all codes are taken: %v", rows)
		}
		table := succeed(t, s.env, "links", "codes", "--workspace", who.workspaceID, url)
		wantTable(t, table, "CODE STATE HELD BY WORKSPACE STATUS STRATEGY URL", first.ID)
		if got, err := who.create(url, "strategy", "RANDOM"); err != nil || !got.Created {
			t.Errorf("another strategy: %+v: %v", got, err)
		}
	})
}
