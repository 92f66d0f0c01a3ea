package visitorpage

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/must"
)

var placeholder = regexp.MustCompile(`[{][^{}]*[}]`)

// TestCatalogue_IsComplete compares each language with English.
func TestCatalogue_IsComplete(t *testing.T) {
	t.Parallel()
	want := slices.Sorted(maps.Keys(catalogue[english]))
	lines := regexp.MustCompile(`(?m)^ *"[^"]+": "`).FindAll(textsJSON, -1)
	if len(lines) != len(want)*len(catalogue) { // of two equal keys a map has the last
		t.Errorf("the file has %d keys, want %d of %d languages", len(lines), len(want), len(catalogue))
	}
	for _, language := range []Language{"de", "en", "es", "fr", "pt"} {
		texts := catalogue[language]
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(texts))); diff != "" {
			t.Errorf("%s: keys (-en +%s):\n%s", language, language, diff)
		}
		for key, text := range texts {
			original := catalogue[english][key]
			wantNames, names := placeholder.FindAllString(original, -1), placeholder.FindAllString(text, -1)
			slices.Sort(wantNames)
			slices.Sort(names)
			switch {
			case strings.TrimSpace(text) != text || text == "":
				t.Errorf("%s: %s is %q", language, key, text)
			case !slices.Equal(wantNames, names):
				t.Errorf("%s: %s has the placeholders %v, want %v", language, key, names, wantNames)
			}
		}
	}
	if len(catalogue) != 5 {
		t.Errorf("the catalogue has %d languages; add the new one to this test and to the guide", len(catalogue))
	}
}

// TestCatalogue_HasTextsOfAllPages looks up every text that the code names.
func TestCatalogue_HasTextsOfAllPages(t *testing.T) {
	t.Parallel()
	keys := []string{"notice.title", "notice.program"}
	for _, m := range []Message{
		NotFound, Expired, Exhausted, Disabled, WorkspaceDeleted, OverQuota, Throttled, Unavailable, PageNotFound, Home,
		NoStats, Blocked, ManyAttempts, Reported, ManyReports,
	} {
		keys = append(keys, string(m)+".title", string(m)+".text")
	}
	for _, kind := range []string{"password", "confirm"} {
		keys = append(keys, kind+".title", kind+".text", kind+".program")
	}
	keys = append(keys, "report.title", "report.text", "report.program", "report.unknown", "report.refused",
		"report.SPAM", "report.PHISHING", "report.MALWARE", "report.ILLEGAL", "report.OTHER", "inspect.title",
		"inspect.hidden.title")
	inspection := must.Value(os.ReadFile("../../click/statspage/inspect.html"))(t)
	templates := formContent + reportContent + string(inspection)
	for _, use := range regexp.MustCompile(`[.]T "([^"]*)"`).FindAllStringSubmatch(templates, -1) {
		keys = append(keys, use[1])
	}
	slices.Sort(keys)
	if diff := cmp.Diff(slices.Compact(keys), slices.Sorted(maps.Keys(catalogue[english]))); diff != "" {
		t.Errorf("keys of the catalogue (-used +there):\n%s", diff)
	}
}
