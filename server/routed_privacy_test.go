package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestPrivateVisitor_LeavesNoRule covers DNT and Sec-GPC: private visitors get the destination that
// others get, no cookie, and a click without rule, target and source. The breakdowns add up to the clicks, also
// after a kill of the node with clicks in its log.
func TestPrivateVisitor_LeavesNoRule(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b.inProcesses(), b.nodes)
		who := nodes[0].tenant(t, "unnoticed")
		target := func(url string) map[string]any {
			return map[string]any{"url": "https://example.com/" + url, "maxClicks": 1000}
		}
		l := who.shorten(t, "https://example.com/own", "strategy", "RANDOM").Link
		routed := who.route(t, l.ID, map[string]any{"qrSources": []string{"flyer"}, "rules": []any{
			map[string]any{"when": []any{map[string]any{"language": []string{"de"}}}, "stickiness": "COOKIE",
				"targets": []any{target("de-a"), target("de-b")}},
			map[string]any{"when": []any{map[string]any{"os": []string{"iOS"}}}, "stickiness": "VISITOR",
				"targets": []any{target("ios-a"), target("ios-b")}},
		}})
		ruleIDs, targetIDs := map[string]string{}, map[string]string{} // by location
		for i, urls := range [][]string{{"de-a", "de-b"}, {"ios-a", "ios-b"}} {
			for k, url := range urls {
				location := "https://example.com/" + url
				ruleIDs[location] = routed.Routing.Rules[i].ID
				targetIDs[location] = routed.Routing.Rules[i].Targets[k].ID
			}
		}
		const public = "X-Public"
		clicks, granted := int64(0), map[string]int64{}
		wanted := map[string]map[string]int64{"RULE": {}, "TARGET": {}, "QR_SOURCE": {}}
		visit := func(node *server, private, agent, language string) (location string) {
			t.Helper()
			source := []string{"", "flyer", "other"}[clicks%3]
			a := node.expect(t, http.StatusFound, http.MethodGet, l.path(node)+"?qr="+source, "User-Agent", agent,
				"Accept-Language", language, private, "1")
			location = a.header.Get("Location")
			if cookie := a.header.Get("Set-Cookie"); (cookie != "") != (private == public && language == "de") {
				t.Errorf("%s to %s: Set-Cookie %q", private, location, cookie)
			}
			clicks++
			granted[targetIDs[location]]++
			rule, target := ruleIDs[location], targetIDs[location]
			if private != public {
				rule, target, source = "", "", ""
			}
			if source == "other" { // not declared
				source = ""
			}
			wanted["RULE"][rule]++
			wanted["TARGET"][target]++
			wanted["QR_SOURCE"][source]++
			return location
		}
		sticky := map[string]bool{} // VISITOR gives a private visitor the target that it gives others
		round := func(node *server) {
			for _, private := range []string{public, "DNT", "Sec-GPC"} {
				sticky[visit(node, private, iPhone, "en")] = true
				for _, agent := range []string{iPhone, desktopChrome} {
					if location := visit(node, private, agent, "de"); !strings.Contains(location, "/de-") {
						t.Errorf("%s: a German visitor is redirected to %s", private, location)
					}
				}
				if location := visit(node, private, desktopChrome, "en"); location != l.OriginalURL {
					t.Errorf("%s: another visitor is redirected to %s", private, location)
				}
				head := node.expect(t, http.StatusFound, http.MethodHead, l.path(node), "Accept-Language", "de",
					private, "1")
				if cookie := head.header.Get("Set-Cookie"); cookie != "" {
					t.Errorf("HEAD with %s: Set-Cookie %q", private, cookie)
				}
			}
		}
		for _, node := range slices.Concat(nodes, nodes) {
			round(node)
		}
		if len(sticky) != 1 || sticky[l.OriginalURL] {
			t.Errorf("one visitor is redirected to %v", sticky)
		}
		last := nodes[len(nodes)-1]
		for range 5 { // these clicks are in the log of the node when it is killed
			round(last)
		}
		last.killAndRestart()
		polltest.Until(t, "all clicks are counted", func() bool { return who.getLink(t, l.ID).ClickCount == clicks })
		for dimension, want := range wanted {
			var got map[string]int64
			polltest.Until(t, "the breakdown adds up", func() bool {
				var sum int64
				got, sum = who.breakdown(t, l.ID, dimension)
				return sum == clicks
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("clicks by %s (-want +got):\n%s", dimension, diff)
			}
		}
		for _, node := range nodes {
			node.stop()
		}
		for _, targetID := range targetIDs {
			n := numberOf(t, b, "SELECT coalesce(sum(granted), 0) FROM grants WHERE subject_id = ?", targetID)
			if n != granted[targetID] {
				t.Errorf("a target has granted %d clicks, want %d, also to private visitors", n, granted[targetID])
			}
		}
	})
}

// breakdown returns the clicks of a link by the values of a dimension, and their sum. Those without a
// value have the empty one.
func (w tenant) breakdown(t *testing.T, linkID, dimension string) (clicks map[string]int64, sum int64) {
	t.Helper()
	var got struct {
		Link struct {
			Stats struct {
				Clicks    int64
				Breakdown []struct {
					Value   string
					IsOther bool
					Clicks  int64
				}
			}
		}
	}
	w.must(t, &got, fmt.Sprintf(`query ($id: ID!) { link(by: {id: $id}) { stats { clicks
		breakdown(by: %s, first: 100) { value isOther clicks } } } }`, dimension), map[string]any{"id": linkID})
	clicks = map[string]int64{}
	for _, slice := range got.Link.Stats.Breakdown {
		if slice.IsOther {
			t.Errorf("other values of %s: %+v", dimension, slice)
		}
		clicks[slice.Value] += slice.Clicks
		sum += slice.Clicks
	}
	if got.Link.Stats.Clicks != sum {
		t.Errorf("%d clicks, and %d by %s", got.Link.Stats.Clicks, sum, dimension)
	}
	return clicks, sum
}
