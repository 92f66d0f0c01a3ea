package hitquota

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// ledgerBatch bounds how many links one statement takes hits for.
const ledgerBatch = 256

// Ledger counts the monthly hits that have been granted. It is a Source; its rows in the database
// are the only authority, so that no two nodes can grant the same hit.
type Ledger struct {
	*Store
	// LogID identifies this process's click log. Its leases are stored under the same ID.
	LogID string
}

// hitUsage is the row of a link in a month. Hits is the number of hits granted so far. Granted and
// MaxHits describe the last request: in the row to insert, Granted is the number of requested hits,
// up to the limit; in the row that the database returns, it is the number that MaxHits permitted. In
// a refund, it is the number of unused hits.
type hitUsage struct {
	bun.BaseModel `bun:"table:hit_usage"`

	LinkID    string    `bun:",pk,type:text"`
	Month     string    `bun:",pk,type:text"`
	Hits      int64     `bun:"type:bigint"`
	Granted   int64     `bun:"type:bigint"`
	MaxHits   int64     `bun:"type:bigint"`
	ChangedAt time.Time `bun:"type:timestamptz"`
}

// charge returns the statement that adds the requested hits to the rows, as many as each limit
// permits, and returns the granted hits.
func (g *Ledger) charge() db.Insert {
	least, greatest := "min", "max"
	if g.DB.Kind == db.Postgres {
		least, greatest = "LEAST", "GREATEST"
	}
	granted := least + "(excluded.granted, " + greatest + "(excluded.max_hits - u.hits, 0))"
	return db.Insert{Into: "hit_usage AS u", Rest: "ON CONFLICT (link_id, month) DO UPDATE SET hits = u.hits + " +
		granted + ", granted = " + granted + ", max_hits = excluded.max_hits, changed_at = excluded.changed_at" +
		" RETURNING link_id, month, hits, granted"}
}

// refund subtracts the unused hits of ended leases; each row has their number in Granted.
var refund = db.Insert{Into: "hit_usage AS u", Rest: "ON CONFLICT (link_id, month) DO UPDATE SET " +
	"hits = u.hits - excluded.granted, changed_at = excluded.changed_at"}

// linkMonth is the key of a row.
type linkMonth struct{ linkID, month string }

// Take implements Source: one statement grants the hits of all requests, so that no more are
// granted than the limit, however many nodes request at once. No two requests may have the
// same link and month. Several requests do not wait long for the row of one.
func (g *Ledger) Take(ctx context.Context, requests []*Request) error {
	take := g.takeInTx
	if g.DB.Kind == db.Postgres {
		take = g.takeCombined
	}
	ctx = db.AsSystem(ctx)
	if len(requests) > 1 {
		ctx = db.WithShortLockTimeout(ctx)
	}
	if err := take(ctx, requests); err != nil {
		return fmt.Errorf("taking hits: %w", err)
	}
	return nil
}

// takeCombined is takeInTx in one round trip. OFFSET 0 keeps the clicks from being counted where they are used, twice.
func (g *Ledger) takeCombined(ctx context.Context, requests []*Request) error {
	n := len(requests)
	links, months, starts := make([]string, n), make([]string, n), make([]time.Time, n)
	wanted, limits, numbers, known := make([]int64, n), make([]int64, n), make([]int64, n), make([]bool, n)
	for i, a := range requests {
		links[i], months[i], starts[i] = a.LinkID, a.Month.String(), a.Month.Start
		wanted[i], limits[i], numbers[i], known[i] = a.Want, a.Limit, a.Number, a.Known
	}
	c := g.DB.Combine()
	c.Add("wanted", fmt.Sprintf("SELECT * FROM unnest(%s::TEXT[], %s::TEXT[], %s::TIMESTAMPTZ[], %s::BIGINT[], "+
		"%s::BIGINT[], %s::BIGINT[], %s::BOOLEAN[]) AS w (link_id, month, starts_at, hits, max_hits, number, is_known)",
		c.Of(links), c.Of(months), c.Of(starts), c.Of(wanted), c.Of(limits), c.Of(numbers), c.Of(known)))
	c.Add("counted", "SELECT wanted.*, CASE WHEN is_known THEN 0 ELSE "+
		g.Clicks.Since("wanted.link_id", "wanted.starts_at")+" END AS clicks FROM wanted OFFSET 0")
	charge := g.charge()
	c.Add("charged", fmt.Sprintf(`INSERT INTO %s (link_id, month, hits, granted, max_hits, changed_at)
		SELECT link_id, month, clicks + admitted, admitted, max_hits, %s
		FROM counted CROSS JOIN LATERAL (SELECT greatest(0, least(hits, max_hits - clicks)) AS admitted) AS request
		ORDER BY link_id COLLATE "C", month COLLATE "C" %s`, charge.Into, c.Of(db.Instant(g.Now())), charge.Rest))
	c.Add("leased", fmt.Sprintf(`INSERT INTO click_leases (log_id, number, link_id, month, hits)
		SELECT %s, number, link_id, month, granted FROM charged JOIN wanted USING (link_id, month) WHERE granted > 0`,
		c.Of(g.LogID)))
	var results []hitUsage
	if err := c.Query(ctx, "charged", &results); err != nil {
		return err
	}
	answerAll(requests, results)
	return nil
}

// answerAll copies result rows to their requests.
func answerAll(requests []*Request, rows []hitUsage) {
	byKey := make(map[linkMonth]*Request, len(requests))
	for _, a := range requests {
		byKey[linkMonth{a.LinkID, a.Month.String()}] = a
	}
	for _, row := range rows {
		a := byKey[linkMonth{row.LinkID, row.Month}]
		a.Granted, a.Left = row.Granted, max(0, a.Limit-row.Hits)
	}
}

func (g *Ledger) takeInTx(ctx context.Context, requests []*Request) error {
	recorded, err := g.recordedClicks(ctx, requests)
	if err != nil {
		return err
	}
	rows := make([]hitUsage, len(requests))
	for i, a := range requests {
		key := linkMonth{a.LinkID, a.Month.String()}
		granted := max(0, min(a.Want, a.Limit-recorded[key]))
		rows[i] = hitUsage{LinkID: key.linkID, Month: key.month, Hits: recorded[key] + granted, Granted: granted,
			MaxHits: a.Limit, ChangedAt: db.Instant(g.Now())}
	}
	sortUsage(rows)
	return g.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var results []hitUsage
		if err := db.InsertReturning(ctx, tx, g.charge(), rows, &results); err != nil {
			return err
		}
		answerAll(requests, results)
		var leases []leaseRow
		for _, a := range requests {
			if a.Granted > 0 {
				leases = append(leases, leaseRow{LogID: g.LogID, Number: a.Number, LinkID: a.LinkID,
					Month: a.Month.String(), Hits: a.Granted})
			}
		}
		return db.InsertRows(ctx, tx, db.Insert{}, leases)
	})
}

// sortUsage sorts rows by their keys, byte by byte: all transactions lock them in this order.
func sortUsage(rows []hitUsage) {
	slices.SortFunc(rows, func(a, b hitUsage) int {
		return cmp.Or(cmp.Compare(a.LinkID, b.LinkID), cmp.Compare(a.Month, b.Month))
	})
}

// recordedClicks returns the clicks in the database of the requested links that may have no row yet.
// They are the first value of a new row's hits: after an upgrade or the restoration of a backup,
// clicks of the month can exist without a row. An existing row includes them already.
func (g *Ledger) recordedClicks(ctx context.Context, requests []*Request) (map[linkMonth]int64, error) {
	byMonth := map[Month][]string{}
	for _, a := range requests {
		if !a.Known {
			byMonth[a.Month] = append(byMonth[a.Month], a.LinkID)
		}
	}
	recorded := make(map[linkMonth]int64, len(requests))
	for m, linkIDs := range byMonth {
		var rows []struct {
			SubjectID string
			Clicks    int64
		}
		if err := g.Clicks.ByLink(linkIDs, m.Start).Scan(ctx, &rows); err != nil {
			return nil, fmt.Errorf("counting the clicks of a month: %w", err)
		}
		for _, row := range rows {
			recorded[linkMonth{row.SubjectID, m.String()}] = row.Clicks
		}
	}
	return recorded, nil
}

// Return implements Source.
func (g *Ledger) Return(ctx context.Context, leases []Lease) error {
	return g.Recover(ctx, g.LogID, leases)
}

// Recover ends the leases of a log, this process's or that of one that has died.
func (g *Ledger) Recover(ctx context.Context, logID string, leases []Lease) error {
	err := g.recoverLeases(ctx, logID, leases, func(ctx context.Context, tx bun.Tx, unused map[linkMonth]int64) error {
		rows := make([]hitUsage, 0, len(unused))
		for key, hits := range unused {
			rows = append(rows, hitUsage{LinkID: key.linkID, Month: key.month, Granted: hits, ChangedAt: db.Instant(g.Now())})
		}
		sortUsage(rows)
		return db.InsertRows(ctx, tx, refund, rows)
	})
	if err != nil {
		return fmt.Errorf("returning hits: %w", err)
	}
	return nil
}

// Resume implements Source, by a read: on SQLite it does not wait for a slow writer.
func (s *Store) Resume(ctx context.Context) error {
	return s.DB.NewSelect().ColumnExpr("1").Scan(ctx, new(int))
}
