package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
)

// This file reads single clicks.

// row is a single click.
type row struct {
	WorkspaceID, LinkID string
	At, ID, Latency     int64
	Visit, Bot          bool
	Status              int
	Texts               []string // of click.VisitDimensions
}

// rowColumns are those of a row except Visit.
var rowColumns = func() string {
	texts := make([]string, len(click.VisitDimensions))
	for i, d := range click.VisitDimensions {
		texts[i] = "toString(" + d.Column + ")"
	}
	return "workspace_id AS WorkspaceID, link_id AS LinkID, toUnixTimestamp64Micro(clicked_at) AS At, id AS ID, " +
		"latency_ns AS Latency, " +
		"bot AS Bot, status AS Status, [" + strings.Join(texts, ", ") + "] AS Texts"
}()

func (r *row) click() *click.Click {
	c := &click.Click{ID: r.ID, WorkspaceID: r.WorkspaceID, LinkID: r.LinkID, ClickedAt: time.UnixMicro(r.At).UTC(),
		LatencyMs: float64(r.Latency) / float64(time.Millisecond), IsVisit: r.Visit, Status: r.Status}
	c.Bot = r.Bot
	for i, d := range click.VisitDimensions {
		*d.Text(c) = r.Texts[i]
	}
	return c
}

// clicks queries clicks.
func (s *Store) clicks(ctx context.Context, question string, args ...any) ([]*click.Click, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	rows, err := ask[row](ctx, s.client, question, args...)
	if err != nil {
		return nil, fmt.Errorf("reading clicks: %w", err)
	}
	found := make([]*click.Click, len(rows))
	for i := range rows {
		found[i] = rows[i].click()
	}
	return found, nil
}

// List implements clickstore.Store. The clicks of a day are together, and not in the order of time:
// so the page is looked for in a day, then in two more, then in four.
func (s *Store) List(ctx context.Context, q clickstore.Query, page clickstore.Page) (found []*click.Click, err error) {
	p, err := s.partsOf(ctx, clickstore.Query{WorkspaceID: q.WorkspaceID, Subject: q.Subject, Filter: q.Filter,
		Range: clickstore.Range{From: s.Now(), To: s.Now()}})
	if err != nil {
		return nil, err
	}
	all, err := s.rangeOf(ctx, &p, q.Range)
	if err != nil {
		return nil, err
	}
	order, comparison := "clicked_at, id", ">"
	if page.NewestFirst {
		order, comparison = "clicked_at DESC, id DESC", "<"
	}
	after := "1"
	if c := page.After; c != nil {
		after = render("(clicked_at, id) ? (?, ?)", sql(comparison), c.ClickedAt, c.ID)
		if page.NewestFirst {
			all.To = clickstore.Earlier(all.To, c.ClickedAt.Add(time.Microsecond))
		} else {
			all.From = clickstore.Later(all.From, c.ClickedAt)
		}
	}
	for days := click.Day; all.From.Before(all.To) && len(found) < page.Size; days *= 2 {
		p.singles = all
		if page.NewestFirst {
			p.singles.From = clickstore.Later(all.From, all.To.Add(-days))
			all.To = p.singles.From
		} else {
			p.singles.To = clickstore.Earlier(all.To, all.From.Add(days))
			all.From = p.singles.To
		}
		more, err := s.clicks(ctx, withSealed+"SELECT ?, is_visit AS Visit FROM ? WHERE ? ORDER BY ? LIMIT ?",
			sql(rowColumns),
			sql(p.visits()), sql(after), sql(order), page.Size-len(found))
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// rangeOf returns the part of a range, which may be unbounded, that has clicks of the subject.
func (s *Store) rangeOf(ctx context.Context, p *parts, r clickstore.Range) (clickstore.Range, error) {
	condition := p.subject()
	if r != (clickstore.Range{}) {
		condition += render(" AND clicked_at >= ? AND clicked_at < ?", r.From, r.To)
	}
	rows, err := ask[struct{ First, Last, N int64 }](ctx, s.client,
		withSealed+"SELECT toUnixTimestamp64Micro(min(clicked_at)) AS First, "+
			"toUnixTimestamp64Micro(max(clicked_at)) AS Last, count() AS N FROM ?",
		sql(singleClicks("clicked_at", condition)))
	if err != nil || len(rows) == 0 || rows[0].N == 0 {
		return clickstore.Range{}, err
	}
	return clickstore.Range{From: time.UnixMicro(rows[0].First).UTC(), To: time.UnixMicro(rows[0].Last + 1).UTC()}, nil
}

// CheckKept implements clickstore.Store.
func (s *Store) CheckKept(ctx context.Context, q clickstore.Query) error {
	p, err := s.partsOf(ctx, q)
	if err != nil || p.days.From.Equal(p.days.To) {
		return err
	}
	return s.checkNone(ctx, &p)
}

// ByID implements clickstore.Store.
func (s *Store) ByID(ctx context.Context, workspaceID string, ids ...string) ([]*click.Click, error) {
	return s.withIDs(ctx, []string{workspaceID}, ids)
}

// WorkspacesOf implements clickstore.Store.
func (s *Store) WorkspacesOf(ctx context.Context, workspaceIDs []string, ids ...string) (map[string]string, error) {
	spaces := map[string]string{}
	found, err := s.withIDs(ctx, workspaceIDs, ids)
	for _, c := range found {
		spaces[c.PublicID()] = c.WorkspaceID
	}
	return spaces, err
}

func (s *Store) withIDs(ctx context.Context, workspaceIDs, ids []string) ([]*click.Click, error) {
	var times []time.Time
	var keys []string
	for _, one := range ids {
		if at, number, ok := click.SplitID(one); ok {
			times, keys = append(times, at), append(keys, render("(?, ?)", at, number))
		}
	}
	if len(keys) == 0 || len(workspaceIDs) == 0 {
		return nil, nil
	}
	first, last := slices.MinFunc(times, time.Time.Compare), slices.MaxFunc(times, time.Time.Compare)
	return s.clicks(ctx, withSealed+"SELECT ? FROM ?", sql(rowColumns), sql(singleClicks(columns,
		render("workspace_id IN (?) AND clicked_at >= ? AND clicked_at <= ? AND (clicked_at, id) IN (?)",
			sql(joined(workspaceIDs)),
			first, last, sql(strings.Join(keys, ", "))))))
}

// Span implements clickstore.Store.
func (s *Store) Span(
	ctx context.Context, spans []clickstore.Span, workspaceIDs []string, linkID string,
) ([]*click.Click, error) {
	if len(workspaceIDs) == 0 {
		return nil, nil
	}
	first, last := spans[0].FirstAt, spans[0].LastAt
	var ids []string
	for _, span := range spans {
		first, last = clickstore.Earlier(first, span.FirstAt), clickstore.Later(last, span.LastAt)
		ids = append(ids, render("id >= ? AND id <= ?", span.FirstID, span.LastID))
	}
	of := render("workspace_id IN (?)", sql(joined(workspaceIDs)))
	if linkID != "" {
		of += render(" AND link_id = ?", linkID)
	}
	return s.clicks(ctx, withSealed+"SELECT ? FROM ?", sql(rowColumns), sql(singleClicks(columns,
		render("? AND clicked_at >= ? AND clicked_at <= ? AND (?)", sql(of), first, last,
			sql(strings.Join(ids, " OR "))))))
}

// Count implements clickstore.Store.
func (s *Store) Count(ctx context.Context, workspaceID string, after time.Time, below int64) (int64, error) {
	if err := s.prepare(ctx); err != nil {
		return 0, err
	}
	rows, err := ask[struct{ N int64 }](ctx, s.client, withSealed+"SELECT count() AS N FROM ?",
		sql(singleClicks("id", render("workspace_id = ? AND clicked_at > ? AND id < ?", workspaceID, after, below))))
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return rows[0].N, nil
}
