package main

import (
	"fmt"
	"net/http"
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
		target := func(url string) map[string]any { return map[string]any{"url": "https://example.com/" + url} }
		l := who.shorten(t, "https://example.com/own", "strategy", "RANDOM").Link
		routed := who.route(t, l.ID, map[string]any{"qrSources": []string{"flyer"}, "rules": []any{
			map[string]any{"when": []any{map[string]any{"language": []string{"de"}}}, "stickiness": "COOKIE",
				"targets": []any{target("de-a"), target("de-b")}},
			map[string]any{"when": []any{map[string]any{"os": []string{"iOS"}}}, "stickiness": "VISITOR",
				"targets": []any{target("ios-a"), target("ios-b")}},
			map[string]any{"when": []any{map[string]any{"language": []string{"fr"}}},
				"targets": []any{map[string]any{"url": "https://example.com/fr", "maxClicks": 1000}}},
		}})
		ids := map[string]string{} // of targets, by location
		for i, urls := range [][]string{{"de-a", "de-b"}, {"ios-a", "ios-b"}, {"fr"}} {
			for k, url := range urls {
				ids["https://example.com/"+url] = routed.Routing.Rules[i].Targets[k].ID
			}
		}
		ruleOf := func(location string) string {
			for i, prefix := range []string{"https://example.com/de-", "https://example.com/ios-",
				"https://example.com/fr"} {
				if strings.HasPrefix(location, prefix) {
					return routed.Routing.Rules[i].ID
				}
			}
			return ""
		}
		rules, targets, sources := map[string]int64{}, map[string]int64{}, map[string]int64{} // the clicks that must be
		clicks, privateFR := int64(0), 0
		visit := func(node *server, private string, visitor ...string) {
			t.Helper()
			isPrivate := private != ""
			if isPrivate {
				visitor = append(visitor, private, "1")
			}
			source := []string{"", "flyer", "other"}[clicks%3]
			a := node.expect(t, http.StatusFound, http.MethodGet, l.path(node)+"?qr="+source, visitor...)
			location := a.header.Get("Location")
			cookie, wantsCookie := a.header.Get("Set-Cookie"), !isPrivate && strings.Contains(location, "/de-")
			if (cookie != "") != wantsCookie {
				t.Errorf("%q to %s: Set-Cookie %q", visitor, location, cookie)
			}
			clicks++
			rule, target := ruleOf(location), ids[location]
			if isPrivate {
				rule, target, source = "", "", ""
				if strings.HasSuffix(location, "/fr") {
					privateFR++
				}
			}
			if source == "other" { // not declared
				source = ""
			}
			rules[rule]++
			targets[target]++
			sources[source]++
			path := map[string]string{"de": "/de-", "fr": "/fr", "en": "/own"}[visitor[3]]
			if visitor[1] == iPhone && visitor[3] != "de" { // this rule precedes that of fr
				path = "/ios-"
			}
			if !strings.Contains(location, path) {
				t.Errorf("%q is redirected to %s, want %s", visitor, location, path)
			}
		}
		round := func(node *server) {
			for _, private := range []string{"", "DNT", "Sec-GPC"} {
				for _, agent := range []string{iPhone, desktopChrome} {
					for _, language := range []string{"de", "fr", "en"} {
						visit(node, private, "User-Agent", agent, "Accept-Language", language)
					}
				}
			}
		}
		for range 3 {
			for _, node := range nodes {
				round(node)
			}
		}
		sticky := map[string]bool{} // VISITOR gives a private visitor the target that it gives others
		for _, private := range []string{"X-Public", "DNT", "Sec-GPC"} {
			a := nodes[0].expect(t, http.StatusFound, http.MethodHead, l.path(nodes[0]), "User-Agent", iPhone, private,
				"1")
			if cookie := a.header.Get("Set-Cookie"); cookie != "" {
				t.Errorf("HEAD with %s: Set-Cookie %q", private, cookie)
			}
			for _, node := range nodes {
				a := node.expect(t, http.StatusFound, http.MethodGet, l.path(node), "User-Agent", iPhone, private, "1")
				location := a.header.Get("Location")
				sticky[location], clicks = true, clicks+1
				sources[""]++
				if private == "X-Public" {
					rules[ruleOf(location)]++
					targets[ids[location]]++
				} else {
					rules[""]++
					targets[""]++
				}
			}
		}
		if len(sticky) != 1 {
			t.Errorf("one visitor is redirected to %v", sticky)
		}

		last := nodes[len(nodes)-1]
		for range 5 { // these clicks are in the log of the node when it is killed
			round(last)
		}
		last.killAndRestart()
		polltest.Until(t, "all clicks are counted", func() bool { return who.getLink(t, l.ID).ClickCount == clicks })
		for dimension, want := range map[string]map[string]int64{"RULE": rules, "TARGET": targets,
			"QR_SOURCE": sources} {
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
		fr := ids["https://example.com/fr"]
		granted := numberOf(t, b, "SELECT granted FROM grants WHERE subject_id = ?", fr)
		if want := targets[fr] + int64(privateFR); granted != want {
			t.Errorf("the capped target has granted %d clicks, want %d: a private visitor consumes one", granted, want)
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
