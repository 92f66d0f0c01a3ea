// Package linklist lists, searches, counts and exports links. It owns filters, sort orders and
// their SQL, but no table: package link writes links and looks them up by ID or address. The
// GraphQL resolvers call it.
package linklist

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Store reads links.
type Store struct {
	DB *db.DB
	// Now is the clock.
	Now func() time.Time

	links *link.Store
	sizes sizes
	wake  chan struct{}
}

// NewStore returns a Store.
func NewStore(d *db.DB, links *link.Store, now func() time.Time) *Store {
	return &Store{DB: d, links: links, Now: now, wake: make(chan struct{}, 1)}
}

// List returns one page, with cursors, of the workspace's links that match the filter, in the order
// of the request. A nil filter is the zero Filter. It returns InvalidInput or Forbidden.
func (s *Store) List(
	ctx context.Context, m workspace.Membership, f *Filter, r page.Request,
) (page.Page[*link.Link], error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return page.Page[*link.Link]{}, err
	}
	ctx, cancel := s.DB.Briefly(ctx)
	defer cancel()
	q, err := s.prepare(ctx, m, f, maxCandidates)
	if err != nil {
		return page.Page[*link.Link]{}, err
	}
	return q.list(ctx, r)
}

// Count counts the workspace's links that match the filter. A nil filter is the zero Filter. It
// returns InvalidInput or Forbidden.
func (s *Store) Count(ctx context.Context, m workspace.Membership, f *Filter) (int64, error) {
	return s.sum(ctx, m, f, (*query).count)
}

// CountClicks is Count for all clicks that the links have ever had.
func (s *Store) CountClicks(ctx context.Context, m workspace.Membership, f *Filter) (int64, error) {
	return s.sum(ctx, m, f, (*query).countClicks)
}

func (s *Store) sum(
	ctx context.Context, m workspace.Membership, f *Filter, of func(*query, context.Context) (int64, error),
) (int64, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return 0, err
	}
	ctx, cancel := s.DB.Briefly(ctx)
	defer cancel()
	q, err := s.prepare(ctx, m, f, maxCandidates)
	if err != nil {
		return 0, err
	}
	return of(q, ctx)
}

// LeadingTo returns the newest links of the workspace, up to page.Max, that have a URL at a canonical
// host: their own, one of their routing, or one that a pending change sets. Deleted links have none.
// It returns Forbidden.
func (s *Store) LeadingTo(ctx context.Context, m workspace.Membership, host string) ([]*link.Link, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.DB.Briefly(ctx)
	defer cancel()
	q, err := s.prepare(ctx, m, nil, maxCandidates)
	if err != nil {
		return nil, err
	}
	q.leadsTo = host
	p, err := q.list(ctx, page.Request{Size: page.Max})
	return p.Items, err
}

// CountActive counts the links of the whole instance that redirect now.
func (s *Store) CountActive(ctx context.Context) (int64, error) {
	n, err := s.withStatus(s.DB.NewSelect().Model((*link.Link)(nil)), db.Instant(s.Now()), routing.Active).
		Where("workspace_id NOT IN (SELECT id FROM workspaces WHERE deleted_at IS NOT NULL)").
		Count(db.AsSystem(ctx))
	if err != nil {
		return 0, fmt.Errorf("counting links: %w", err)
	}
	return int64(n), nil
}

// row is a link with the values that it can be sorted by.
type row struct {
	link.Link `bun:",extend"`

	TitleKey string
	Clicks   int64     `bun:",scanonly"` // only when sorted by clicks
	LastAt   time.Time `bun:",scanonly"` // only when sorted by the last click
}

// neverClicked is the last click of links that were never clicked.
var neverClicked = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// totals are orders by a column of click_totals.
var totals = map[OrderField]struct {
	column string
	// none is the value in SQL of links without clicks, and number the same in cursors.
	none   string
	number int64
}{
	ByClicks:    {"clicks", "0", 0},
	ByLastClick: {"last_at", "'2000-01-01 00:00:00+00:00'", neverClicked.UnixMicro()},
}

// withInstants replaces the numbers of a request's cursors by instants, in orders by time.
func withInstants(r page.Request) page.Request {
	switch OrderField(r.Order.Name) {
	case ByUpdate, ByLastClick:
		if n, ok := r.AfterValue.(int64); ok {
			r.AfterValue = db.Instant(time.UnixMicro(n))
		}
		if n, ok := r.BeforeValue.(int64); ok {
			r.BeforeValue = db.Instant(time.UnixMicro(n))
		}
	}
	return r
}

func (r *row) sortValue(o page.Order) any {
	switch OrderField(o.Name) {
	case ByClicks:
		return r.Clicks
	case ByTitle:
		return r.TitleKey
	case ByUpdate:
		return r.UpdatedAt.UnixMicro()
	case ByLastClick:
		return max(r.LastAt.UnixMicro(), neverClicked.UnixMicro())
	}
	return nil
}

// list returns one page, with the cursors of its links.
func (q *query) list(ctx context.Context, r page.Request) (links page.Page[*link.Link], err error) {
	rows, err := q.rows(ctx, r)
	if err != nil {
		return links, fmt.Errorf("listing links: %w", err)
	}
	p := page.Cut(r, rows)
	links.HasNext, links.HasPrevious = p.HasNext, p.HasPrevious
	for _, item := range p.Items {
		item.In = q.member
		links.Items = append(links.Items, &item.Link)
		links.Cursors = append(links.Cursors, r.Order.Cursor(item.sortValue(r.Order), item.ID))
	}
	if err := link.Complete(ctx, q.DB, q.Now(), links.Items...); err != nil {
		return links, err
	}
	if q.member.Fence() != nil {
		q.dropOutside(&links)
	}
	return links, nil
}

// dropOutside drops links that a change which is due and not written yet has moved out of the
// fence.
func (q *query) dropOutside(links *page.Page[*link.Link]) {
	all, cursors := links.Items, links.Cursors
	links.Items, links.Cursors = nil, nil
	for i, l := range all {
		if q.member.IsInside(l.FolderID) {
			links.Items, links.Cursors = append(links.Items, l), append(links.Cursors, cursors[i])
		}
	}
}

func (q *query) count(ctx context.Context) (int64, error) {
	count, err := q.where(q.DB.NewSelect().Model((*row)(nil))).Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("counting links: %w", err)
	}
	return int64(count), nil
}

// countClicks sums up the click totals of the links, see byTotal. If the links are not known yet,
// SQLite starts with the totals: their index has the clicks, and links without clicks are not read.
func (q *query) countClicks(ctx context.Context) (clicks int64, err error) {
	tables := "click_totals AS total CROSS JOIN links AS link"
	if q.narrowed {
		tables = "links AS link CROSS JOIN click_totals AS total"
	}
	err = q.where(q.DB.NewSelect().Model((*row)(nil))).ModelTableExpr(tables).
		ColumnExpr("CAST(COALESCE(SUM(total.clicks), 0) AS BIGINT)").Where("link.id = total.subject_id").
		Where("total.workspace_id = ?", q.member.ID()).Where("total.clicks > 0").Scan(ctx, &clicks)
	if err != nil {
		return 0, fmt.Errorf("counting the clicks of links: %w", err)
	}
	return clicks, nil
}

// rows returns the links of a page and one more, in the direction of the request.
func (q *query) rows(ctx context.Context, r page.Request) (rows []*row, err error) {
	sel := q.where(q.DB.NewSelect().Model(&rows))
	total, isByTotal := totals[OrderField(r.Order.Name)]
	switch {
	case q.narrowed && len(q.candidates) == 0:
		return nil, nil
	case OrderField(r.Order.Name) == ByTitle:
		sel = page.LimitBy(sel, r, "link.title_key", "link.id")
	case OrderField(r.Order.Name) == ByUpdate:
		sel = page.LimitBy(sel, withInstants(r), "link.updated_at", "link.id")
	case !isByTotal:
		sel = q.byID(&rows, r)
	case q.narrowed:
		value := fmt.Sprintf("COALESCE(total.%s, %s)", total.column, total.none)
		sel = sel.ModelTableExpr("links AS link LEFT JOIN click_totals AS total ON total.subject_id = link.id").
			ColumnExpr("?TableColumns, ? AS ?", bun.Safe(value), bun.Ident(total.column))
		sel = page.LimitBy(sel, withInstants(r), value, "link.id")
	default:
		return q.byTotal(ctx, r)
	}
	return rows, sel.Scan(ctx)
}

// byTotal walks an index of click totals. Package stats owns them; they are read here because no
// index can serve an order that is merged from two packages. Links without clicks have no total:
// they are walked separately, before or after the others, and only if the page reaches them.
func (q *query) byTotal(ctx context.Context, r page.Request) (rows []*row, err error) {
	walks := []func(*bun.SelectQuery, page.Request) (*bun.SelectQuery, bool){q.clicked, q.neverClicked}
	if r.Upward() {
		slices.Reverse(walks)
	}
	for _, walk := range walks {
		var more []*row
		sel, ok := walk(q.where(q.DB.NewSelect().Model(&more)), r)
		if !ok || len(rows) > r.Size {
			continue
		}
		if len(rows) > 0 { // a link may get its first click between the two statements
			sel = sel.Where("link.id NOT IN (?)", bun.In(rowIDs(rows)))
		}
		if err := sel.Scan(ctx); err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// clicked walks links that have been clicked. CROSS JOIN makes SQLite start with the totals
// (https://www.sqlite.org/optoverview.html#manual_control_of_query_plans_using_cross_join).
func (q *query) clicked(sel *bun.SelectQuery, r page.Request) (*bun.SelectQuery, bool) {
	sel = sel.ModelTableExpr("click_totals AS total CROSS JOIN links AS link").
		ColumnExpr("?TableColumns, total.?", bun.Ident(totals[OrderField(r.Order.Name)].column)).
		Where("link.id = total.subject_id").Where("total.workspace_id = ?", q.member.ID()).Where("total.clicks > 0")
	column := "total." + totals[OrderField(r.Order.Name)].column
	return page.LimitBy(sel, withInstants(r), column, "total.subject_id"), true
}

// neverClicked walks links without clicks, if they can be on the page.
func (q *query) neverClicked(sel *bun.SelectQuery, r page.Request) (*bun.SelectQuery, bool) {
	r, ok := r.Among(totals[OrderField(r.Order.Name)].number)
	sel = sel.Where("NOT EXISTS (SELECT 1 FROM click_totals AS total " +
		"WHERE total.subject_id = link.id AND total.clicks > 0)")
	return page.Limit(sel, r, "link.id"), ok
}

func rowIDs(rows []*row) []string {
	ids := make([]string, 0, len(rows))
	for _, item := range rows {
		ids = append(ids, item.ID)
	}
	return ids
}

// byID walks an index that has the order of ids. An index of folders has this order only within a
// folder: of several, each is walked by itself.
func (q *query) byID(rows *[]*row, r page.Request) *bun.SelectQuery {
	sel := q.DB.NewSelect().Model(rows)
	if q.narrowed || len(q.folders) < 2 || !q.walksFolders() {
		return page.Limit(q.boundByTags(q.where(sel)), r, "link.id")
	}
	var first []string
	var pages []any
	for _, folderID := range q.folders {
		links := q.whereIn(q.DB.NewSelect().Model((*row)(nil)).Column("id"), folderID)
		first = append(first, "SELECT id FROM (?) AS page")
		pages = append(pages, page.Limit(q.boundByTags(links), r, "link.id"))
	}
	return page.Limit(sel.Where("link.id IN ("+strings.Join(first, " UNION ALL ")+")", pages...), r, "link.id")
}

// boundByTags bounds a scan by ID to the range of links with the tag. A campaign's tag is often
// common among the links of one month and rare otherwise.
func (q *query) boundByTags(sel *bun.SelectQuery) *bun.SelectQuery {
	if q.narrowed {
		return sel
	}
	for _, tags := range q.tagGroups() {
		if len(tags) == 1 {
			sel = sel.Where("link.id >= (SELECT min(link_id) FROM link_tags WHERE workspace_id = ? AND tag = ?)",
				q.member.ID(), tags[0]).
				Where("link.id <= (SELECT max(link_id) FROM link_tags WHERE workspace_id = ? AND tag = ?)",
					q.member.ID(), tags[0])
		}
	}
	return sel
}

// notDeleted is the condition of all states but Deleted.
const notDeleted = "link.deleted_at IS NULL OR link.disabled_at IS NOT NULL"

// where adds the conditions of the filter.
func (q *query) where(sel *bun.SelectQuery) *bun.SelectQuery { return q.whereIn(sel, q.folders...) }

// whereIn is where for links in some of the folders; none means all links.
func (q *query) whereIn(sel *bun.SelectQuery, folders ...string) *bun.SelectQuery {
	sel = sel.Where("link.workspace_id = ?", q.member.ID()).Where("link.purged_at IS NULL")
	if len(folders) > 0 {
		sel = sel.Where("link.folder_id IN (?)", bun.In(folders))
	}
	if len(q.Status) > 0 {
		sel = q.withStatus(sel, q.now, q.Status...)
	} else {
		sel = sel.Where(notDeleted)
	}
	if q.narrowed {
		sel = sel.Where("link.id IN (?)", bun.In(q.candidates))
	}
	if len(q.Strategy) > 0 {
		sel = sel.Where("link.strategy IN (?)", bun.In(q.Strategy))
	}
	if q.Archived != nil {
		sel = sel.Where("link.archived = ?", *q.Archived)
	}
	sel = q.whereValues(sel)
	sel = sel.WhereGroup(" AND ", q.whereFound)
	for _, tags := range q.tagGroups() {
		sel = sel.Where("EXISTS (SELECT 1 FROM link_tags "+
			"WHERE link_tags.link_id = link.id AND link_tags.tag IN (?))", bun.In(tags))
	}
	return sel
}

// whereFound selects the links that have all words, and the one whose short URL is the search.
func (q *query) whereFound(sel *bun.SelectQuery) *bun.SelectQuery {
	for _, word := range q.words {
		sel = q.DB.Contains(sel, "link.search", word)
	}
	if q.named != "" {
		sel = sel.WhereOr("link.id = ?", q.named)
	}
	return sel
}

// withStatus restricts a query to links that are in one of the states at an instant.
func (s *Store) withStatus(sel *bun.SelectQuery, now time.Time, in ...routing.Status) *bun.SelectQuery {
	expression, args := routing.StatusSQL(now, granted[s.DB.Kind])
	return sel.Where(expression+" IN (?)", append(args, bun.In(in))...)
}
