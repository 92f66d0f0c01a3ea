package stats_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

func TestPlatform_WithoutClicks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := clicktest.Setup(t, d)
		platform, err := b.Ledger.Platform(t.Context())
		if err != nil || platform.Mean() != nil {
			t.Errorf("%+v: %v", platform, err)
		}
	})
}

func TestTally_MatchesReference(t *testing.T) {
	t.Parallel()
	values := []float64{1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16} // variance 22.5: naive sums of squares lose it
	var one, left, right click.Tally
	for i, v := range values {
		one.Add(v)
		if i < 1 {
			left.Add(v)
		} else {
			right.Add(v)
		}
	}
	left.Merge(right)
	left.Merge(click.Tally{})
	want := click.Tally{Clicks: 4, LatencyMean: 1e9 + 10, LatencyM2: 90}
	if diff := cmp.Diff([]click.Tally{want, want}, []click.Tally{one, left}, clicktest.About); diff != "" {
		t.Errorf("one by one, merged (-want +got):\n%s", diff)
	}
}

// TestExport_NamesWhatIsKnown: a line leaves out unknown texts, and no cell is a formula.
func TestExport_NamesWhatIsKnown(t *testing.T) {
	t.Parallel()
	c := click.Click{ID: 7, LinkID: "lnk_1", ClickedAt: clicktest.Noon, Status: 302}
	c.RuleID, c.Campaign = "rul_1", "=cmd"
	var line map[string]any
	must.NoError(t, json.Unmarshal(must.Value(json.Marshal((*stats.ExportLine)(&c)))(t), &line))
	row := stats.ExportRow(&c)
	for i, name := range stats.ExportHead()[7:] {
		want := map[string]string{"ruleId": "rul_1", "utmCampaign": "'=cmd"}[name]
		if _, ok := line[name]; ok != (want != "") || row[7+i] != want {
			t.Errorf("%s is %q in a cell and %v in a line, want %q", name, row[7+i], line[name], want)
		}
	}
}

func TestSeries_FollowsTimeZone(t *testing.T) {
	t.Parallel()
	const month = 30 * 24 * time.Hour
	for _, c := range []struct {
		zone     string
		interval stats.Interval
		long     time.Duration
		from     string
		want     []string // starts, in the zone's own time
	}{
		// 29: 23 hours
		{"Europe/Berlin", stats.Day, month, "2026-03-28T12:00:00Z", []string{"28 00:00", "29 00:00", "30 00:00"}},
		// comes twice
		{"Europe/Berlin", stats.Hour, month, "2026-10-25T00:00:00Z", []string{"25 02:00", "25 02:00", "25 03:00"}},
		// no midnight
		{"Africa/Cairo", stats.Day, month, "2026-04-23T12:00:00Z", []string{"23 00:00", "24 01:00", "25 00:00"}},
		{"Asia/Kathmandu", stats.Day, month, "2026-11-20T12:00:00Z", []string{"20 00:00", "21 00:00", "22 00:00"}},
		// no 30
		{"Pacific/Apia", stats.Day, month, "2011-12-29T20:00:00Z", []string{"29 00:00", "31 00:00", "01 00:00"}},
		// no 31
		{"Asia/Manila", stats.Day, month, "1844-12-30T00:00:00Z", []string{"29 00:00", "30 00:00", "01 00:00"}},
		// a Sunday's week
		{"UTC", stats.Week, month, "2026-11-22T12:00:00Z", []string{"16 00:00", "23 00:00", "30 00:00"}},
		{"UTC", stats.Month, 4 * month, "2026-11-20T12:00:00Z", []string{"01 00:00", "01 00:00", "01 00:00"}},
	} {
		location := must.Value(time.LoadLocation(c.zone))(t)
		from := must.Value(time.Parse(time.RFC3339, c.from))(t)
		s := stats.Stats{Query: clickstore.Query{Range: clickstore.Range{From: from, To: from.Add(c.long)}},
			Zone: location}
		var got []string
		points := must.Value(s.Intervals(c.interval))(t)
		for _, p := range points[:3] {
			got = append(got, p.Start.In(location).Format("02 15:04"))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s from %s: %v, want %v", c.zone, c.interval, c.from, got, c.want)
		}
	}
}

func TestSeries_RefusesTooManyHours(t *testing.T) {
	t.Parallel()
	s := stats.Stats{Query: clickstore.Query{Range: clickstore.Range{From: clicktest.Noon,
		To: clicktest.Noon.AddDate(0, 0, 32)}}, Zone: time.UTC}
	if _, err := s.Intervals(stats.Hour); !errs.Is(err, errs.InvalidInput) {
		t.Errorf("32 days in hours: %v", err)
	}
}

func TestRange_IsValidated(t *testing.T) {
	t.Parallel()
	b := clicktest.Setup(t, dbtest.MigratedSQLite(t))
	for name, c := range map[string]struct {
		r    *clickstore.Range
		zone string
	}{
		"backwards": {&clickstore.Range{From: clicktest.Noon, To: clicktest.Noon}, ""},
		"too long":  {&clickstore.Range{From: clicktest.Noon, To: clicktest.Noon.AddDate(11, 0, 0)}, ""},
		"too early": {&clickstore.Range{From: time.Date(1844, 12, 29, 0, 0, 0, 0, time.UTC),
			To: time.Date(1845, 1, 5, 0, 0, 0, 0, time.UTC)}, ""},
		"no zone":     {nil, "Mars/Olympus"},
		"the server":  {nil, "Local"},
		"out of tree": {nil, "../../etc/passwd"},
	} {
		if _, err := b.Stats.Stats(t.Context(), b.Member, clickstore.Subject{}, c.r, c.zone,
			clickstore.Filter{}); !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
