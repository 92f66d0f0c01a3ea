package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// batch is how many links one call makes, callers how many call or follow at once.
	batch   = 1000
	callers = 4
	// followed is how many links are followed. The first limited of them have a maxClicks, which is
	// not reached before the backup.
	followed = 4000
	limited  = 20
	// beyond is how many more redirects than the load makes of a limited link it may answer.
	beyond = 100_000
)

// link is one that was made.
type link struct{ url, id, code string }

// estate is a workspace with its links: deterministic ones, and every tenth of the strategy
// COUNTER.
type estate struct {
	*rig.Tenant
	links []link
	// asked and answered count redirects, by link; maxClicks is that of limited links.
	asked, answered []atomic.Int64

	mu sync.Mutex
	// given are all codes that anybody was ever given.
	given map[string]bool
	late  int // the number of the next link that the load makes
}

// settle makes an account, its workspace and the links.
func settle(ctx context.Context, address string, links int) (*estate, error) {
	tenant, err := rig.NewTenant(ctx, address, "drill")
	if err != nil {
		return nil, err
	}
	e := &estate{Tenant: tenant, links: make([]link, links), asked: make([]atomic.Int64, followed),
		answered: make([]atomic.Int64, followed), given: map[string]bool{}}
	return e, rig.InBatches(ctx, links, batch, callers, e.makeLinks)
}

func (e *estate) makeLinks(ctx context.Context, from, to int) error {
	var some []any
	for number := from; number < to; number++ {
		one := map[string]any{"url": urlOf(number)}
		if number < limited {
			one["maxClicks"] = maxClicks
		} else if counted(number) {
			one["strategy"] = "COUNTER"
		}
		some = append(some, one)
	}
	made, err := e.MakeLinks(ctx, some)
	for i, m := range made {
		e.links[from+i] = link{urlOf(from + i), m.Link.ID, m.Link.Code}
		e.give(m.Link.Code)
	}
	return err
}

// maxClicks is that of limited links.
const maxClicks = beyond

// counted says which links are of the strategy COUNTER.
func counted(number int) bool { return number%10 == 9 }

// urlOf is where a link leads, which also is its canonical form.
func urlOf(number int) string {
	return fmt.Sprintf("https://www.example.com/articles/%d/a-title-of-some-words?n=%d", number%997, number)
}

// give notes a code, and reports whether it was given before.
func (e *estate) give(code string) (again bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	again = e.given[code]
	e.given[code] = true
	return again
}

// follow has so many redirects answered.
func (e *estate) follow(ctx context.Context, n int) error {
	var next atomic.Int64
	all, ctx := errgroup.WithContext(ctx)
	for range 4 * callers {
		all.Go(func() error {
			for next.Add(1) <= int64(n) {
				if err := e.visit(ctx, rand.IntN(followed)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// visit follows a link, which must redirect.
func (e *estate) visit(ctx context.Context, number int) error {
	e.asked[number].Add(1)
	status, err := e.get(ctx, number)
	if err == nil && status != http.StatusFound {
		err = fmt.Errorf("link %d was answered with %d", number, status)
	}
	if err == nil {
		e.answered[number].Add(1)
	}
	return err
}

func (e *estate) get(ctx context.Context, number int) (status int, err error) {
	status, _, err = e.Follow(ctx, "/"+e.links[number].code)
	return status, err
}

// load is what goes on while the backup is made.
type load struct {
	cancel  context.CancelFunc
	running errgroup.Group
}

func (e *estate) load() *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel}
	for range callers {
		l.running.Go(func() error {
			return repeat(ctx, func() error { return e.visit(context.Background(), rand.IntN(followed)) })
		})
	}
	for range 2 {
		l.running.Go(func() error { return repeat(ctx, func() error { return e.makeCounted(context.Background(), 5) }) })
	}
	return l
}

func repeat(ctx context.Context, do func() error) error {
	for ctx.Err() == nil {
		if err := do(); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// end ends the load, and returns what went wrong. A second call does nothing.
func (l *load) end() error {
	l.cancel()
	return l.running.Wait()
}

// makeCounted makes links of the strategy COUNTER with new URLs.
func (e *estate) makeCounted(ctx context.Context, n int) error {
	_, again, err := e.makeNew(ctx, n, "COUNTER")
	if err == nil && again > 0 {
		err = errors.New("a code was given out twice before the restore")
	}
	return err
}

// makeNew makes links with new URLs, and tells how many of their codes somebody had been given
// before.
func (e *estate) makeNew(ctx context.Context, n int, strategy string) (made []rig.Link, again int, err error) {
	e.mu.Lock()
	from := 1_000_000_000 + e.late
	e.late += n
	e.mu.Unlock()
	var some []any
	for number := from; number < from+n; number++ {
		some = append(some, map[string]any{"url": urlOf(number), "strategy": strategy})
	}
	made, err = e.MakeLinks(ctx, some)
	for _, m := range made {
		if e.give(m.Link.Code) {
			again++
		}
	}
	return made, again, err
}

// certain are the clicks that a backup which begins now has.
func (d *drill) certain(ctx context.Context) ([]int64, error) {
	if !d.lagging {
		return loads(d.estate.answered), nil
	}
	return d.clicksOf(ctx, d.env)
}

// clicksOf are the clicks that a database has of the links that are followed, counted one by one.
func (d *drill) clicksOf(ctx context.Context, env []string) (clicks []int64, err error) {
	type row struct {
		LinkID string
		Clicks int64
	}
	var rows []row
	err = rig.Within(d.database(env), true, func(in *sql.DB) (err error) {
		rows, err = rig.Rows[row](ctx, in, "SELECT link_id, count(*) AS clicks FROM clicks GROUP BY link_id")
		return err
	})
	if err != nil {
		return nil, err
	}
	byID := map[string]int64{}
	for _, r := range rows {
		byID[r.LinkID] = r.Clicks
	}
	clicks = make([]int64, followed)
	for number := range clicks {
		clicks[number] = byID[d.estate.links[number].id]
	}
	return clicks, nil
}

func loads(counts []atomic.Int64) []int64 {
	all := make([]int64, len(counts))
	for i := range counts {
		all[i] = counts[i].Load()
	}
	return all
}

func total(counts []int64) (all int64) {
	for _, n := range counts {
		all += n
	}
	return all
}
