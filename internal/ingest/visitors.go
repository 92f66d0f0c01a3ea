package ingest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/visitor"
)

const (
	// keyLead is how long before its day a key is created, keyCheck the interval of checks.
	keyLead  = 2 * time.Hour
	keyCheck = time.Minute
)

// Keys are the keys of visitor hashes: one for each UTC day, which all nodes share, and which is
// deleted after the day. With the database alone, it is then impossible to find out whether a user
// has followed a link.
type Keys struct {
	// DB is the database.
	DB *db.DB
	// Log receives missing keys.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time

	held atomic.Pointer[map[int64]*visitor.Key] // by day since 1970
}

// Of returns the key of a day, or nil when this node has none: then clicks have no visitor.
func (k *Keys) Of(t time.Time) *visitor.Key {
	if held := k.held.Load(); held != nil {
		return (*held)[click.DayOf(t)]
	}
	return nil
}

// Fetch gets the keys of today and, when that is near, of tomorrow, and forgets those of days that
// are over.
func (k *Keys) Fetch(ctx context.Context) (err error) {
	now := k.Now()
	today := click.DayOf(now)
	held := map[int64]*visitor.Key{}
	for _, d := range slices.Compact([]int64{today, click.DayOf(now.Add(keyLead))}) {
		key := k.Of(time.Unix(d*int64(click.Day/time.Second), 0))
		if key == nil {
			var problem error
			key, problem = k.share(ctx, d)
			err = errors.Join(err, problem)
		}
		if key != nil {
			held[d] = key
		}
	}
	k.held.Store(&held) // also after an error: the keys of days that are over are forgotten
	return err
}

// share makes a key of the day, unless another node has: that one holds for all.
func (k *Keys) share(ctx context.Context, day int64) (*visitor.Key, error) {
	key := visitor.Key{}
	_, _ = rand.Read(key[:]) // never fails
	var shared []byte
	err := k.DB.NewRaw(`INSERT INTO visitor_keys AS k (day, key) VALUES (?, ?)
		ON CONFLICT (day) DO UPDATE SET key = k.key RETURNING key`,
		day, key[:]).Scan(db.AsSystem(ctx), &shared)
	if err != nil {
		return nil, fmt.Errorf("the day's key of visitors: %w", err)
	}
	if len(shared) != len(key) {
		return nil, errors.New("the day's key of visitors is damaged")
	}
	copy(key[:], shared)
	return &key, nil
}

// Run refreshes the keys until the context ends. It logs the first of consecutive failures.
func (k *Keys) Run(ctx context.Context) error {
	failures := poll.Failures{Log: k.Log, Message: "no visitor key: unique visitors are not counted"}
	for {
		failures.Report(ctx, k.Fetch(ctx))
		if poll.Wait(ctx, keyCheck) != nil {
			return nil
		}
	}
}

// visitorsAtOnce bounds a statement.
const visitorsAtOnce = 5000

// markVisits marks the first click of each visitor of a link on a day. The link's total is locked,
// so no other writer marks the same visitors.
func (w *Writer) markVisits(ctx context.Context, tx bun.Tx, clicks []click.Click) error {
	firsts := map[int64]map[int64]*click.Click{} // by day and visitor
	for i := range clicks {
		c := &clicks[i]
		if c.Visitor == 0 || c.Bot {
			continue
		}
		d := click.DayOf(c.ClickedAt)
		if firsts[d] == nil {
			firsts[d] = map[int64]*click.Click{}
		}
		if firsts[d][c.Visitor] == nil {
			firsts[d][c.Visitor] = c
		}
	}
	for d, visitors := range firsts {
		if err := w.addVisitors(ctx, tx, d, visitors); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) addVisitors(ctx context.Context, tx bun.Tx, day int64, visitors map[int64]*click.Click) error {
	all := make([]int64, 0, len(visitors))
	for v := range visitors {
		all = append(all, v)
	}
	slices.Sort(all)
	for chunk := range slices.Chunk(all, visitorsAtOnce) {
		var known []int64
		err := tx.NewSelect().Table("visitors").Column("visitor").Where("day = ?", day).
			Where("visitor IN (?)", bun.In(chunk)).Scan(ctx, &known)
		if err != nil {
			return err
		}
		for _, v := range known {
			delete(visitors, v)
		}
	}
	added := slices.DeleteFunc(all, func(v int64) bool { return visitors[v] == nil })
	for _, v := range added {
		visitors[v].IsVisit = true
	}
	row := []any{day, nil}
	return w.DB.Load(ctx, tx, "visitors", []string{"day", "visitor"}, len(added), func(i int) []any {
		row[0], row[1] = int32(day), added[i]
		return row
	})
}
