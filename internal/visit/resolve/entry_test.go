package resolve

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/route/routing"
)

// TestEntry_IsAsSmallAsEver compares the entries of plain links, hosts and workspaces with the
// bytes that they had before links could have routing. One with routing or settings is longer.
func TestEntry_IsAsSmallAsEver(t *testing.T) {
	t.Parallel()
	start := time.UnixMicro(1_000_000)
	link := Target{
		WorkspaceID: "ws_1", MonthClicks: 2, ReadAt: 3,
		Program: routing.NewProgram("lnk_1", &routing.Settings{
			RedirectStatus: 302, StartsAt: &start, MaxClicks: new(int64(5)),
		}, "https://a.example/"),
	}
	routed := link
	routed.Compiled = "compiled"
	for name, c := range map[string]struct {
		entry entry
		want  string
	}{
		"link": {linkEntry(subject{"ws_1", "abc"}, &link),
			"01" + "0477735f31" + "03616263" + "00" + "2e01" + "40420f0000000000" + "ffffffffffffff7f" +
				"0500000000000000" +
				"0200000000000000" + "0300000000000000" + "056c6e6b5f31" + "0477735f31" +
				"68747470733a2f2f612e6578616d706c652f"},
		"link with routing": {linkEntry(subject{"ws_1", "abc"}, &routed),
			"01" + "0477735f31" + "03616263" + "04" + "2e01" + "40420f0000000000" + "ffffffffffffff7f" +
				"0500000000000000" +
				"0200000000000000" + "0300000000000000" + "056c6e6b5f31" + "0477735f31" +
				"1268747470733a2f2f612e6578616d706c652f" + "636f6d70696c6564"},
		"host": {placeEntry(subject{hosts, "h"}, "ws_1"), "02" + "0140" + "0168" + "77735f31"},
		"workspace": {workspaceEntry(subject{workspaces, "ws_1"}, &settings{hitQuota: -1}),
			"03" + "0123" + "0477735f31" + "ffffffffffffffff" + "00"},
		"deleted workspace": {workspaceEntry(subject{workspaces, "ws_1"},
			&settings{hitQuota: 7, isGone: true, notFoundURL: "https://a.example/"}),
			"03" + "0123" + "0477735f31" + "0700000000000000" + "01"},
	} {
		if got := hex.EncodeToString([]byte(c.entry)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	_, rest, _ := linkEntry(subject{"ws_1", "abc"}, &routed).open(subject{"ws_1", "abc"})
	if got := readTarget(rest); got != routed {
		t.Errorf("%+v, want %+v", got, routed)
	}
	host := Host{WorkspaceID: "ws_1", RootURL: "r", EndedURL: "e", Indexable: true}
	kind, rest, _ := hostEntry(subject{hosts, "h"}, &host).open(subject{hosts, "h"})
	if got := readHost(kind, rest); got != host {
		t.Errorf("%+v, want %+v", got, host)
	}
}

// TestEntry_HoldsPendingStates: each state holds until the next one begins.
func TestEntry_HoldsPendingStates(t *testing.T) {
	t.Parallel()
	at, noon := subject{"ws_1", "abc"}, time.UnixMicro(1_000_000)
	var states []scheduledTarget
	for i, location := range []string{"a", "b", "skipped", "c"} {
		states = append(states, scheduledTarget{
			Target{Program: routing.Program{LinkID: "lnk_1", Location: location}},
			noon.Add(time.Duration(min(i, 2)) * time.Hour), // the last two begin at once
		})
	}
	kind, rest, ok := scheduledEntry(at, states).open(at)
	if kind != entryScheduled || !ok {
		t.Fatalf("kind %d, %t", kind, ok)
	}
	for after, want := range map[time.Duration]string{
		0: "a", time.Hour - 1: "a", time.Hour: "b", 2*time.Hour - time.Microsecond: "b", 2 * time.Hour: "c",
		99 * time.Hour: "c",
	} {
		if got := readTarget(present(rest, noon.Add(after))); got.Location != want || got.LinkID != "lnk_1" {
			t.Errorf("after %s: %+v, want %s", after, got, want)
		}
	}
}
