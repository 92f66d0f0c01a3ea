package ingest

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
)

// drawText draws what ids may be made of, and more.
func drawText(t *rapid.T, name string) string {
	return strings.ReplaceAll(rapid.StringN(0, -1, maxID-1).Draw(t, name), "\x00", "0")
}

func TestRecord_ClickRoundTrips(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := &click.Click{
			WorkspaceID: "w" + drawText(t, "workspace"),
			LinkID:      "l" + drawText(t, "link"),
			ClickedAt: time.UnixMicro(rapid.Int64Range(clickstore.Never.UnixMicro(),
				clickstore.Never.AddDate(200, 0, 0).UnixMicro()).
				Draw(t, "time")).UTC(),
			LatencyMs: rapid.Float64Range(-maxLatencyMs, maxLatencyMs).Draw(t, "latency"),
			Status:    rapid.IntRange(0, maxStatus).Draw(t, "status"),
			Visitor:   rapid.Int64().Draw(t, "visitor"),
			HitLease:  rapid.Int64().Draw(t, "hit lease"),
		}
		want.Bot = rapid.Bool().Draw(t, "bot")
		for _, d := range click.VisitDimensions {
			*d.Text(want) = drawText(t, string(d.Name))
		}
		got, lease, err := parseRecord(appendClick(nil, want))
		if diff := cmp.Diff(want, got); diff != "" || lease != nil || err != nil {
			t.Errorf("click (-want +got):\n%s%v, %v", diff, lease, err)
		}
	})
}

func TestRecord_LeaseRoundTrips(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := &hitquota.Lease{LinkID: "l" + drawText(t, "link"), Number: rapid.Int64().Draw(t, "number"),
			Hits: rapid.Int64().
				Draw(t, "hits")}
		if rapid.Bool().Draw(t, "monthly") {
			want.Month = click.MonthOf(time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "month"), 0))
		}
		click, got, err := parseRecord(appendLease(nil, want))
		if diff := cmp.Diff(want, got); diff != "" || click != nil || err != nil {
			t.Errorf("lease (-want +got):\n%s%v, %v", diff, click, err)
		}
	})
}

// TestRecord_KeepsItsFormat: nodes that have stopped left records with these bytes.
func TestRecord_KeepsItsFormat(t *testing.T) {
	t.Parallel()
	aClick := &click.Click{
		WorkspaceID: "ws_1", LinkID: "lnk_1", ClickedAt: dbtest.Noon, LatencyMs: 0.5, Status: 302, HitLease: 300,
		Visitor: 7,
	}
	aClick.Bot = true
	aLease := &hitquota.Lease{LinkID: "lnk_1", Month: click.MonthOf(dbtest.Noon), Number: 300, Hits: 64}
	for name, c := range map[string]struct {
		record string
		click  *click.Click
		lease  *hitquota.Lease
	}{
		"click": {"030010cafbb3600600000000000000e03fd80400056c6e6b5f310477735f31" +
			"ae02070000000000000001" + strings.Repeat("00", recordedTexts), aClick, nil},
		"lease": {"02d8048001056c6e6b5f3107323032362d3131", nil, aLease},
	} {
		record := must.Value(hex.DecodeString(c.record))(t)
		click, lease, err := parseRecord(record)
		if diff := cmp.Diff(c.click, click); diff != "" || err != nil {
			t.Errorf("%s: %s, click (-want +got):\n%s%v", name, c.record, diff, err)
		}
		if diff := cmp.Diff(c.lease, lease); diff != "" {
			t.Errorf("%s: %s, lease (-want +got):\n%s", name, c.record, diff)
		}
	}
}

func TestRecord_RefusesInvalid(t *testing.T) {
	t.Parallel()
	c, l := exampleClick("lnk_1"), hitquota.Lease{LinkID: "lnk_1", Month: click.MonthOf(dbtest.Noon), Number: 1,
		Hits: 1}
	nul := exampleClick("lnk_\x00")
	noMonth := bytes.Replace(appendLease(nil, &l), []byte("2026-11"), []byte("2026-13"), 1)
	for name, record := range map[string][]byte{
		"nothing":                      {},
		"an unknown kind":              {3, 1, 2, 3},
		"a link that no database has":  appendClick(nil, &nul),
		"a month that no calendar has": noMonth,
		"more than a click":            append(appendClick(nil, &c), 0),
		"more than a lease":            append(appendLease(nil, &l), 0),
	} {
		if click, lease, err := parseRecord(record); err == nil {
			t.Errorf("%s is read as %v, %v", name, click, lease)
		}
	}
	for name, damage := range map[string]func(*click.Click){
		"a workspace that is not UTF-8":   func(c *click.Click) { c.WorkspaceID = "ws_\xff" },
		"a link that is not UTF-8":        func(c *click.Click) { c.LinkID = "lnk_\xc3" },
		"half of a surrogate pair":        func(c *click.Click) { c.LinkID = "lnk_\xed\xa0\x80" },
		"a country that is not UTF-8":     func(c *click.Click) { c.Country = "\xff" },
		"a rule that is not UTF-8":        func(c *click.Click) { c.RuleID = "\xff" },
		"a QR source that is not UTF-8":   func(c *click.Click) { c.QRSource = "\xff" },
		"a link that no index takes":      func(c *click.Click) { c.LinkID = strings.Repeat("l", maxID+1) },
		"a workspace that no index takes": func(c *click.Click) { c.WorkspaceID = strings.Repeat("w", maxID+1) },
		"a text that no visitor sends":    func(c *click.Click) { c.Campaign = strings.Repeat("c", maxText+1) },
		"a status of four digits":         func(c *click.Click) { c.Status = 1000 },
		"a status that is negative":       func(c *click.Click) { c.Status = -1 },
		"a latency far below zero":        func(c *click.Click) { c.LatencyMs = -1e300 },
		"a latency without a sum":         func(c *click.Click) { c.LatencyMs = 1e300 },
		"no number":                       func(c *click.Click) { c.LatencyMs = math.NaN() },
		"a year before redirects":         func(c *click.Click) { c.ClickedAt = time.Unix(0, 0) },
	} {
		damaged := c
		damage(&damaged)
		if click, _, err := parseRecord(appendClick(nil, &damaged)); err == nil {
			t.Errorf("%s is read as %v", name, click)
		}
	}
	l.LinkID = "lnk_\xff"
	if _, lease, err := parseRecord(appendLease(nil, &l)); err == nil {
		t.Errorf("a lease of a link that is not UTF-8 is read as %v", lease)
	}
	l.LinkID = "lnk_1"
	for _, record := range [][]byte{appendClick(nil, &c), appendLease(nil, &l)} {
		for size := range record {
			if click, lease, err := parseRecord(record[:size]); err == nil {
				t.Errorf("%d bytes of %d are read as %v, %v", size, len(record), click, lease)
			}
		}
	}
}

func exampleClick(linkID string) click.Click {
	return click.Click{WorkspaceID: "ws_nobody", LinkID: linkID, ClickedAt: dbtest.Noon, LatencyMs: 1}
}
