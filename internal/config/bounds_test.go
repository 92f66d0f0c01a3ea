package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// usualBounds are those of an instance that is not configured.
var usualBounds = Bounds{
	Body: 10 << 20, AnonymousBody: 256 << 10, Values: 100_000, Document: 64 << 10, Tokens: 1000, Fields: 1000, RootFields: 100, Depth: 20,
	Aliases: 100, Repeats: 100, Fragments: 500, Directives: 50, Cost: 10_000, Deadline: 15 * time.Second,
}

// TestBoundsArrive each from a variable of its own.
func TestBoundsArrive(t *testing.T) {
	t.Parallel()
	f := setup()
	f.MaxBody, f.MaxAnonymousBody, f.MaxValues, f.MaxDocument, f.MaxTokens, f.MaxFields, f.MaxRootFields = "1", "2", "3", "4", "5", "6", "7"
	f.MaxDepth, f.MaxAliases, f.MaxRepeats, f.MaxFragments, f.MaxDirectives, f.MaxCost = "8", "9", "10", "11", "12", "13"
	f.OperationDeadline, f.CostRate, f.Documents, f.DocumentsOnly = "14s", "15", "list.json", "on"
	c, err := f.Check()
	want := Bounds{
		Body: 1, AnonymousBody: 2, Values: 3, Document: 4, Tokens: 5, Fields: 6, RootFields: 7,
		Depth: 8, Aliases: 9, Repeats: 10, Fragments: 11, Directives: 12, Cost: 13, Deadline: 14 * time.Second,
	}
	if diff := cmp.Diff(want, c.Bounds); diff != "" || err != nil || c.CostRate != 15 || c.Documents != "list.json" || !c.DocumentsOnly {
		t.Errorf("%v %+v (-want +got):\n%s", err, c, diff)
	}
}

func TestBoundsOfBounds(t *testing.T) {
	t.Parallel()
	variable := variables()
	for f := range reflect.TypeFor[Flags]().Fields() {
		if !strings.HasPrefix(f.Name, "Max") {
			continue
		}
		if _, err := set(setup(), f.Name, "1").Check(); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		for _, value := range []string{"0", "-1", "1.5", "many", "9999999999999"} {
			_, err := set(setup(), f.Name, value).Check()
			if diff := cmp.Diff([]string{variable[f.Name]}, blamed(err)); diff != "" {
				t.Errorf("%s=%s blames (-want +got):\n%s", f.Name, value, diff)
			}
		}
	}
	for value, good := range map[string]bool{"1s": true, "10m": true, "999ms": false, "601s": false, "15": false} {
		if _, err := set(setup(), "OperationDeadline", value).Check(); (err == nil) != good {
			t.Errorf("a deadline of %s: %v", value, err)
		}
	}
}

func TestCostRate(t *testing.T) {
	t.Parallel()
	f := setup()
	f.Env = "production"
	if c, err := f.Check(); err != nil || c.CostRate != 600_000 {
		t.Errorf("in production: %d, %v", c.CostRate, err)
	}
	f.MaxCost = "500"
	for rate, good := range map[string]bool{"500": true, "499": false, "0": false, "many": false} {
		_, err := set(f, "CostRate", rate).Check()
		if (err == nil) != good || !good && !cmp.Equal(blamed(err), []string{"LINKFORGE_COST_RATE"}) {
			t.Errorf("%s points a minute, of which one operation may cost 500: %v", rate, err)
		}
	}
}

func TestDocumentsOnlyNeedsDocuments(t *testing.T) {
	t.Parallel()
	f := setup()
	f.DocumentsOnly = "on"
	if _, err := f.Check(); !cmp.Equal(blamed(err), []string{"LINKFORGE_DOCUMENTS_ONLY"}) {
		t.Errorf("without a list: %v", err)
	}
	f.DocumentsOnly, f.Documents = "off", "list.json"
	if c, err := f.Check(); err != nil || c.DocumentsOnly {
		t.Errorf("%+v: %v", c, err)
	}
}
