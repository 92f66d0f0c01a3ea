package upkeep

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// eventsOf returns the actions of the events about the link's destination.
func (b *checks) eventsOf(t *testing.T, l *link.Link) (actions []string) {
	t.Helper()
	must.NoError(t, b.db.NewSelect().Model((*audit.Event)(nil)).Column("action").Where("target_id = ?", l.ID).
		Where("action LIKE 'DESTINATION_%'").Order("seq").Scan(db.AsSystem(t.Context()), &actions))
	return actions
}

// TestRun_WritesDestinationEventsOnce: a destination fails twice, an hour apart, with two nodes
// running the job; then it recovers.
func TestRun_WritesDestinationEventsOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var status atomic.Int64
		status.Store(http.StatusOK)
		b := setupChecks(t, d, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }, nil)
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
			linktest.Equal(t, step.want, b.eventsOf(t, l), "after %s", step.wait)
		}
		// A member's check follows the same rules.
		status.Store(http.StatusGone)
		b.check(t, l)
		b.check(t, l)
		b.check(t, l)
		linktest.Equal(t, []string{failed, recovered, failed}, b.eventsOf(t, l), "after checks by a member")
	})
}

// TestRun_WritesNoEventsWithoutNetwork: when most hosts fall silent, the fault is the server's own
// network. It is, until a host responds. Then the events of hosts that still fail are written, also
// if no other is due.
func TestRun_WritesNoEventsWithoutNetwork(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var down sync.Map
		b := setupChecks(t, d, func(_ http.ResponseWriter, r *http.Request) {
			host, _, _ := strings.Cut(r.Host, ".")
			if _, isDown := down.Load(host[:1]); isDown {
				panic(http.ErrAbortHandler)
			}
		}, nil)
		var links []*link.Link
		for i := range 4 {
			links = append(links, b.linkTo(t, fmt.Sprint(i), "/"))
			down.Store(fmt.Sprint(i), true)
		}
		for _, step := range []struct {
			name string
			due  []int
			up   string
			want []int
		}{
			{"one host fails", []int{0}, "", []int{0, 0, 0, 0}},
			{"two more fall silent", []int{0, 1, 2}, "", []int{0, 0, 0, 0}},
			{"the same again", []int{0, 1, 2}, "", []int{0, 0, 0, 0}},
			{"another one responds", []int{3}, "3", []int{0, 0, 0, 0}},
			{"two are due together", []int{0, 1}, "", []int{1, 1, 0, 0}},
			{"one recovers", []int{1, 2}, "1", []int{1, 2, 1, 0}},
		} {
			down.Delete(step.up)
			var due []string
			for _, i := range step.due {
				due = append(due, links[i].ID)
			}
			b.makeDue(t, due...)
			b.run(t)
			var counts []int
			for _, l := range links {
				counts = append(counts, len(b.eventsOf(t, l)))
			}
			linktest.Equal(t, step.want, counts, "events after %q", step.name)
		}
	})
}

// makeDue makes the destinations of these links due, and those of no others.
func (b *checks) makeDue(t *testing.T, ids ...string) {
	t.Helper()
	for at, where := range map[time.Time]string{b.now: "id IN (?)", b.now.Add(time.Hour): "id NOT IN (?)"} {
		must.Value(b.db.NewUpdate().Table("links").Set("check_at = ?", at).Where(where, bun.In(ids)).
			Exec(db.AsSystem(t.Context())))(t)
	}
}

// TestRun_OneHostIsNoNetwork: a run that checks a single host cannot distinguish a fault of the
// host from one of the network.
func TestRun_OneHostIsNoNetwork(t *testing.T) {
	t.Parallel()
	b := setupChecks(t, dbtest.MigratedSQLite(t), func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}, nil)
	l := b.linkTo(t, "a", "/")
	b.run(t)
	b.now = b.now.Add(time.Hour)
	b.run(t)
	linktest.Equal(t, []string{string(audit.DestinationFailed)}, b.eventsOf(t, l), "difference")
}
