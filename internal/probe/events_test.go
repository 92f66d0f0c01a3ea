package probe

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/link"
)

// eventsOf returns the actions of the events about the link's destination.
func (b *bundle) eventsOf(t *testing.T, l *link.Link) (actions []string) {
	t.Helper()
	err := b.db.NewSelect().Model((*audit.Event)(nil)).Column("action").Where("target_id = ?", l.ID).
		Where("action LIKE 'DESTINATION_%'").Order("seq").Scan(db.AsSystem(t.Context()), &actions)
	if err != nil {
		t.Fatal(err)
	}
	return actions
}

// TestRun_WritesDestinationEventsOnce: a destination fails twice, an hour apart, with two nodes running the
// job; then it recovers.
func TestRun_WritesDestinationEventsOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var status atomic.Int64
		status.Store(http.StatusOK)
		b := setup(t, d, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }, nil)
		l := b.linkTo(t, "a", "/")
		runAtTwoNodes := func() {
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					if err := b.Run(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		var failed, recovered = string(audit.DestinationFailed), string(audit.DestinationRecovered)
		for _, step := range []struct {
			wait   time.Duration
			status int64
			want   []string
		}{
			{0, http.StatusOK, nil},
			{24 * time.Hour, http.StatusBadGateway, nil},
			{time.Hour - time.Second, http.StatusBadGateway, nil},
			{time.Second, http.StatusBadGateway, []string{failed}},
			{2 * time.Hour, http.StatusNotFound, []string{failed}},
			{4 * time.Hour, http.StatusOK, []string{failed, recovered}},
			{24 * time.Hour, http.StatusOK, []string{failed, recovered}},
		} {
			b.now = b.now.Add(step.wait)
			status.Store(step.status)
			runAtTwoNodes()
			if diff := cmp.Diff(step.want, b.eventsOf(t, l)); diff != "" {
				t.Errorf("after %s (-want +got):\n%s", step.wait, diff)
			}
		}
		// A member's check follows the same rules.
		status.Store(http.StatusGone)
		b.check(t, l)
		b.check(t, l)
		b.check(t, l)
		if diff := cmp.Diff([]string{failed, recovered, failed}, b.eventsOf(t, l)); diff != "" {
			t.Errorf("after checks by a member (-want +got):\n%s", diff)
		}
	})
}

// TestRun_WritesNoEventsWithoutNetwork: while most hosts do not respond, the fault is the server's own
// network. The next run with a network writes the event of the host that still fails.
func TestRun_WritesNoEventsWithoutNetwork(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var down sync.Map
		b := setup(t, d, func(_ http.ResponseWriter, r *http.Request) {
			host, _, _ := strings.Cut(r.Host, ".")
			if _, isDown := down.Load(host[:1]); isDown {
				panic(http.ErrAbortHandler)
			}
		}, nil)
		var links []*link.Link
		for i := range 4 {
			links = append(links, b.linkTo(t, fmt.Sprint(i), "/"))
		}
		runDue := func() {
			t.Helper()
			_, err := d.NewUpdate().Table("links").Set("check_at = ?", b.now).Where("1 = 1").Exec(db.AsSystem(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			b.run(t)
		}
		counts := func() (n []int) {
			for _, l := range links {
				n = append(n, len(b.eventsOf(t, l)))
			}
			return n
		}
		for i := range 3 {
			down.Store(fmt.Sprint(i), true)
		}
		for range 3 {
			runDue()
		}
		if diff := cmp.Diff([]int{0, 0, 0, 0}, counts()); diff != "" {
			t.Errorf("events while three of four hosts do not respond (-want +got):\n%s", diff)
		}
		if got := b.get(t, links[0]); outcome(got) != "nothing" || got.CheckFailures != 3 {
			t.Errorf("got %s after %d failures", outcome(got), got.CheckFailures)
		}
		down.Delete("1")
		runDue()
		if diff := cmp.Diff([]int{1, 0, 1, 0}, counts()); diff != "" {
			t.Errorf("events while two of four hosts do not respond (-want +got):\n%s", diff)
		}
	})
}

// TestRun_OneHostIsNoNetwork: a run that checks one host alone cannot tell whether the network is at fault.
func TestRun_OneHostIsNoNetwork(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)), func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}, nil)
	l := b.linkTo(t, "a", "/")
	b.run(t)
	b.now = b.now.Add(time.Hour)
	b.run(t)
	if diff := cmp.Diff([]string{string(audit.DestinationFailed)}, b.eventsOf(t, l)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
