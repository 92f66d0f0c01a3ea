package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// TestCaseSensitiveCodes_EndUnderLoad: a workspace with many custom links stops to compare their
// codes by case. No redirect fails meanwhile, and then printed capitals work.
func TestCaseSensitiveCodes_EndUnderLoad(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const clashing = 10
		links := suitetest.Size(2_000, 100_000)
		s := start(t, b, "LINKFORGE_LINK_QUOTA=1000000", "LINKFORGE_HIT_QUOTA=1000000000")
		who := s.tenant(t, "printed")
		d := must.Value(b.open())(t)
		defer d.Close()
		must.Value(d.NewRaw("UPDATE workspaces SET case_sensitive_codes = ? WHERE id = ?", true, who.workspaceID).
			Exec(db.AsSystem(t.Context())))(t)
		var codes []string
		for i := range links {
			codes = append(codes, fmt.Sprint("code-", i))
		}
		for i := range clashing {
			codes = append(codes, fmt.Sprint("CODE-", i))
		}
		for some := range slices.Chunk(codes, 500) {
			who.customLinks(t, some)
		}
		l := who.shorten(t, "https://example.com/popular", "customCode", "popular").Link
		v := gather(t, s, l.path(s), 4, breath)
		fold := func() (isSensitive bool, errors []userError) {
			var got struct {
				UpdateWorkspace struct {
					Workspace struct{ CaseSensitiveCodes bool }
					Errors    []userError
				}
			}
			who.must(t, &got, `mutation ($w: ID!) { updateWorkspace(input: {id: $w, caseSensitiveCodes: false}) {
				workspace { caseSensitiveCodes } errors { code message field } } }`,
				map[string]any{"w": who.workspaceID})
			return got.UpdateWorkspace.Workspace.CaseSensitiveCodes, got.UpdateWorkspace.Errors
		}
		if _, errs := fold(); len(errs) != 1 || errs[0].Code != "CONFLICT" ||
			!strings.Contains(errs[0].Message, "CODE-0 and code-0") {
			t.Errorf("with codes that differ in case only: %+v", errs)
		}
		for i := range clashing {
			var found struct{ Link struct{ ID string } }
			who.must(t, &found, `query ($w: ID!, $c: String!) { link(by: {code: {workspaceId: $w, code: $c}}) { id } }`,
				map[string]any{"w": who.workspaceID, "c": fmt.Sprint("CODE-", i)})
			who.remove(t, found.Link.ID)
			who.shorten(t, fmt.Sprint("https://example.com/renamed/", i), "customCode", fmt.Sprint("Renamed-", i))
		}
		began := time.Now()
		if isSensitive, errs := fold(); isSensitive || len(errs) > 0 {
			t.Errorf("afterwards: %t, %+v", isSensitive, errs)
		}
		t.Logf("%d links in %s", links, time.Since(began).Round(time.Millisecond))
		v.end()
		if others := v.others(); len(others) > 0 || v.unsure.Load() > 0 || v.seen.Load() == 0 {
			t.Errorf("%d redirects, and other answers meanwhile: %v, %d without one", v.seen.Load(), others,
				v.unsure.Load())
		}
		for code, to := range map[string]string{"POPULAR": "popular", "CODE-0": "code-0", "RENAMED-9": "renamed/9"} {
			a := s.expect(t, 302, "GET", strings.Replace(l.path(s), "popular", code, 1))
			if got := a.header.Get("Location"); got != "https://example.com/"+to {
				t.Errorf("%s goes to %s", code, got)
			}
		}
	})
}

// customLinks creates a link for each code.
func (w tenant) customLinks(t *testing.T, codes []string) {
	t.Helper()
	var in []any
	for _, code := range codes {
		in = append(in, map[string]any{"url": "https://example.com/" + code, "customCode": code})
	}
	var got struct {
		CreateLinks struct {
			Results []struct{ Created bool }
			Errors  []userError
		}
	}
	w.must(t, &got, createCounters, map[string]any{"in": map[string]any{"workspaceId": w.workspaceID, "links": in}})
	for _, r := range got.CreateLinks.Results {
		if !r.Created {
			t.Fatalf("a custom link was not created: %+v", got.CreateLinks.Errors)
		}
	}
}
