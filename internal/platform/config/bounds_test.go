package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// usualBounds are those of an instance that is not configured.
var usualBounds = Bounds{Body: 10 << 20, Document: 64 << 10, Cost: 10_000, Deadline: 15 * time.Second}

func TestLoad_EnforcesBoundRanges(t *testing.T) {
	t.Parallel()
	for _, variable := range variables() {
		if !strings.HasPrefix(variable, "LINKFORGE_MAX_") {
			continue
		}
		checkValues(t, setup(), variable, []string{"1"}, []string{"0", "-1", "1.5", "many", "9999999999999"})
	}
	checkValues(t, setup(), "LINKFORGE_OPERATION_DEADLINE", []string{"1s", "10m"}, []string{"999ms", "601s", "15"})
}

func TestLoad_CostRate(t *testing.T) {
	t.Parallel()
	f := setup()
	f["LINKFORGE_ENV"], f["LINKFORGE_PUBLIC_URL"] = "production", "https://sho.rt"
	if c, err := Parse(f, checks); err != nil || c.CostRate != 600_000 {
		t.Errorf("in production: %d, %v", c.CostRate, err)
	}
	f["LINKFORGE_MAX_COST"] = "500"
	for rate, good := range map[string]bool{"500": true, "499": false, "0": false, "many": false} {
		_, err := Parse(with(f, "LINKFORGE_COST_RATE", rate), checks)
		if (err == nil) != good || !good && !cmp.Equal(blamed(err), []string{"LINKFORGE_COST_RATE"}) {
			t.Errorf("%s points a minute, of which one operation may cost 500: %v", rate, err)
		}
	}
}

func TestLoad_DocumentsOnlyNeedsDocuments(t *testing.T) {
	t.Parallel()
	f := setup()
	f["LINKFORGE_DOCUMENTS_ONLY"] = "on"
	if c, err := Parse(f, checks); err != nil || !c.DocumentsOnly {
		t.Errorf("for the console alone: %v", err)
	}
	f["LINKFORGE_CONSOLE"] = "off"
	if _, err := Parse(f, checks); !cmp.Equal(blamed(err), []string{"LINKFORGE_DOCUMENTS_ONLY"}) {
		t.Errorf("without a list: %v", err)
	}
	f["LINKFORGE_DOCUMENTS_ONLY"], f["LINKFORGE_DOCUMENTS"] = "off", "list.json"
	if c, err := Parse(f, checks); err != nil || c.DocumentsOnly {
		t.Errorf("%+v: %v", c, err)
	}
}
