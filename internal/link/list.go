package link

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/validate"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// maxSearch is how many characters a search has at most, maxWords how many words.
	maxSearch = 200
	maxWords  = 10
	// few is how many links that an index of tags or text has found are looked at one by one. When it finds more, the
	// page is looked for along its order instead, where so many are met soon.
	few = 5000
)

// Filter says which links are looked for: those for which everything that is given holds.
type Filter struct {
	// Search are words that all occur in the title, the note, the URL or the code, in any case.
	Search *string
	// Tags are what the links are tagged with; TagMatch says whether with any of them, which is the default, or all.
	Tags     []string
	TagMatch TagMatch
	// Status are the states that the links are in now. None means every one but Deleted.
	Status []routing.Status
	// Strategy are the ways in which the codes were made. None means any.
	Strategy []Strategy
	// Archived says whether the links are put away; nil means either.
	Archived *bool
	// CreatedFrom is the first instant at which the links were made, CreatedTo the first one after those; nil means
	// open.
	CreatedFrom, CreatedTo *time.Time
}

// TagMatch is how many of the tags a link must have.
type TagMatch string

// The matches.
const (
	AnyTag  TagMatch = "ANY"
	AllTags TagMatch = "ALL"
)

// Order is an order of links; the zero Order begins with the newest. Equal links are ordered by their ids.
type Order struct {
	Field OrderField
	// Direction says which end comes first; empty means the newest, the most clicks, the first title.
	Direction Direction
}

// OrderField is what links are ordered by.
type OrderField string

// The fields.
const (
	ByCreation OrderField = "CREATED_AT" // by ids, which are in the order in which they were made
	ByClicks   OrderField = "CLICKS"     // that have been counted, ever
	ByTitle    OrderField = "TITLE"      // in lower case, by code points
)

// Direction is which end of an order comes first.
type Direction string

// The directions.
const (
	Ascending  Direction = "ASC"
	Descending Direction = "DESC"
)

// Page checks a connection's arguments, where cursors stand for places in the order; a nil Order is the zero one. It
// returns InvalidInput.
func (o *Order) Page(first *int, after *string, last *int, before *string) (page.Request, error) {
	return o.pages().Parse(id.Link, first, after, last, before)
}

func (o *Order) pages() (p page.Order) {
	if o == nil {
		return p
	}
	switch o.Field {
	case ByClicks:
		p = page.Order{Name: string(ByClicks), Numbers: true}
	case ByTitle:
		p = page.Order{Name: string(ByTitle), Ascending: true}
	}
	if o.Direction != "" {
		p.Ascending = o.Direction == Ascending
	}
	return p
}

// List is one page, with cursors, of the workspace's links that the filter lets through, in the order of the
// request. A nil filter is the zero one. It returns InvalidInput or Forbidden.
func (s *Store) List(ctx context.Context, m workspace.Membership, f *Filter, r page.Request) (page.Page[*Link], error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return page.Page[*Link]{}, err
	}
	n, err := s.search(ctx, m, f, few)
	if err != nil {
		return page.Page[*Link]{}, err
	}
	return n.list(ctx, r)
}

// Count is how many links of the workspace the filter lets through. A nil filter is the zero one. It returns
// InvalidInput or Forbidden.
func (s *Store) Count(ctx context.Context, m workspace.Membership, f *Filter) (int64, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return 0, err
	}
	n, err := s.search(ctx, m, f, few)
	if err != nil {
		return 0, err
	}
	return n.count(ctx)
}

// found is a link with what orders compare of it.
type found struct {
	Link `bun:",extend"`

	TitleKey string
	Clicks   int64 `bun:",scanonly"` // only in the order of clicks
}

func (f *found) value(o page.Order) any {
	switch OrderField(o.Name) {
	case ByClicks:
		return f.Clicks
	case ByTitle:
		return f.TitleKey
	}
	return nil
}

// search is a filter that has been checked, in a workspace, at an instant.
type search struct {
	*Store
	Filter
	member workspace.Membership
	now    time.Time
	words  []string
	// narrow says that an index has found few links: these, among which are all that the filter lets through.
	narrow bool
	few    []string
}

// search checks the filter, and finds out whether an index makes it a matter of few links.
func (s *Store) search(ctx context.Context, m workspace.Membership, f *Filter, few int) (n *search, err error) {
	n = &search{Store: s, member: m, now: s.now(), Filter: optional.Value(f)}
	if n.words, err = words(optional.Value(n.Search)); err != nil {
		return nil, err
	}
	if n.Tags, err = checkTags(n.Tags); err != nil {
		return nil, errs.From(err).At("filter", "tags")
	}
	if err := n.lookUp(ctx, few); err != nil {
		return nil, fmt.Errorf("looking for links: %w", err)
	}
	return n, nil
}

// words are the words of a search, as links have them.
func words(search string) ([]string, error) {
	line, err := validate.Line("The search", search, 0, maxSearch)
	if err != nil {
		return nil, errs.From(err).At("filter", "search")
	}
	words := strings.Fields(fold(line))
	if len(words) > maxWords {
		return nil, errs.New(errs.InvalidInput, "A search has up to %d words; this one has %d.", maxWords, len(words)).At("filter", "search")
	}
	return words, nil
}

// lookUp asks the indexes, one after the other, until one knows of few links. What is asked here is only where to
// look: the filter itself is applied to what is there then. Neither database is left to guess how common a word is.
func (n *search) lookUp(ctx context.Context, few int) error {
	for _, tags := range n.tagged() {
		var queries []*bun.SelectQuery
		for _, name := range tags {
			// In order, the first links come from the index, and not from everybody's tags.
			queries = append(queries, n.DB.NewSelect().Model((*tag)(nil)).Column("link_id").
				Where("workspace_id = ?", n.member.ID()).Where("tag = ?", name).Order("link_id"))
		}
		if err := n.among(ctx, few, queries...); err != nil || n.narrow {
			return err
		}
	}
	q := n.indexed(n.member.ID(), n.words)
	if q == nil {
		return nil
	}
	if common, err := n.common(ctx); err != nil || common {
		return err
	}
	// As the resolver, who sees all workspaces' links: PostgreSQL asks no index about text before it has looked at whose
	// a row is. Everything that is found is looked at again, as the workspace sees it.
	return n.among(db.AsResolver(ctx), few, q)
}

// among looks at what queries for ids find together, when that is few.
func (n *search) among(ctx context.Context, few int, queries ...*bun.SelectQuery) error {
	var ids []string
	for _, q := range queries {
		var more []string
		if err := q.Limit(int64(few)+1).Scan(ctx, &more); err != nil {
			return err
		}
		if ids = append(ids, more...); len(ids) > few {
			return nil
		}
	}
	n.narrow, n.few = true, ids
	return nil
}

const (
	// sampled is how many of the newest links are looked at to find out how common words are, and commonIn of how many one
	// must have them for the page to be met soon along any order, without the index.
	sampled  = 500
	commonIn = 10
)

// common reports whether many of the newest links have the words. An index would find more than is of use, and not every
// database stops at as many as are asked for.
func (n *search) common(ctx context.Context) (bool, error) {
	if n.stopsInTime() {
		return false, nil
	}
	newest := n.DB.NewSelect().Table("links").Column("search").Where("workspace_id = ?", n.member.ID()).Where("purged_at IS NULL").
		Order("id DESC").Limit(sampled)
	q := n.DB.NewSelect().TableExpr("(?) AS newest", newest)
	for _, word := range n.words {
		q = n.contains(q, "newest.search", word)
	}
	count, err := q.Count(ctx)
	return count >= sampled/commonIn, err
}

// tagged are sets of tags, of each of which a link has one.
func (n *search) tagged() (sets [][]string) {
	if len(n.Tags) == 0 {
		return nil
	}
	if n.TagMatch != AllTags {
		return [][]string{n.Tags}
	}
	for _, tag := range n.Tags {
		sets = append(sets, []string{tag})
	}
	return sets
}

// list is one page, with the links' cursors.
func (n *search) list(ctx context.Context, r page.Request) (links page.Page[*Link], err error) {
	rows, err := n.rows(ctx, r)
	if err != nil {
		return links, fmt.Errorf("listing links: %w", err)
	}
	p := page.Cut(r, rows)
	links.HasNext, links.HasPrevious = p.HasNext, p.HasPrevious
	for _, row := range p.Items {
		row.In = n.member
		links.Items = append(links.Items, &row.Link)
		links.Cursors = append(links.Cursors, r.Order.Cursor(row.value(r.Order), row.ID))
	}
	return links, nil
}

func (n *search) count(ctx context.Context) (int64, error) {
	count, err := n.where(n.DB.NewSelect().Model((*found)(nil))).Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("counting links: %w", err)
	}
	return int64(count), nil
}

// rows are the links of a page and one more, in the order of walking.
func (n *search) rows(ctx context.Context, r page.Request) (rows []*found, err error) {
	q := n.where(n.DB.NewSelect().Model(&rows))
	switch {
	case n.narrow && len(n.few) == 0:
		return nil, nil
	case OrderField(r.Order.Name) == ByTitle:
		q = page.LimitBy(q, r, "link.title_key", "link.id")
	case OrderField(r.Order.Name) != ByClicks:
		q = page.Limit(n.span(q), r, "link.id")
	case n.narrow:
		q = q.ModelTableExpr("links AS link LEFT JOIN click_totals AS total ON total.subject_id = link.id").
			ColumnExpr("?TableColumns, COALESCE(total.clicks, 0) AS clicks")
		q = page.LimitBy(q, r, "COALESCE(total.clicks, 0)", "link.id")
	default:
		return n.byClicks(ctx, r)
	}
	return rows, q.Scan(ctx)
}

// byClicks walks along the clicks. They are another room's to keep, and read here only, because an order that two
// rooms put together comes from no index. Links that were never clicked are missing there: they are walked by
// themselves, before or after the others, and only where the page reaches them.
func (n *search) byClicks(ctx context.Context, r page.Request) (rows []*found, err error) {
	walks := []func(*bun.SelectQuery, page.Request) (*bun.SelectQuery, bool){n.clicked, n.neverClicked}
	if r.Upward() {
		slices.Reverse(walks)
	}
	for _, walk := range walks {
		var more []*found
		q, ok := walk(n.where(n.DB.NewSelect().Model(&more)), r)
		if !ok || len(rows) > r.Size {
			continue
		}
		if len(rows) > 0 { // one may be clicked for the first time in between
			q = q.Where("link.id NOT IN (?)", bun.In(idsOf(rows)))
		}
		if err := q.Scan(ctx); err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// clicked walks links that have been clicked. CROSS JOIN has SQLite begin with the clicks
// (https://www.sqlite.org/optoverview.html#manual_control_of_query_plans_using_cross_join).
func (n *search) clicked(q *bun.SelectQuery, r page.Request) (*bun.SelectQuery, bool) {
	q = q.ModelTableExpr("click_totals AS total CROSS JOIN links AS link").ColumnExpr("?TableColumns, total.clicks").
		Where("link.id = total.subject_id").Where("total.workspace_id = ?", n.member.ID()).Where("total.clicks > 0")
	return page.LimitBy(q, r, "total.clicks", "total.subject_id"), true
}

// neverClicked walks links that have not been clicked, if they can be on the page.
func (n *search) neverClicked(q *bun.SelectQuery, r page.Request) (*bun.SelectQuery, bool) {
	r, ok := r.Among(0)
	q = q.Where("NOT EXISTS (SELECT 1 FROM click_totals AS total WHERE total.subject_id = link.id AND total.clicks > 0)")
	return page.Limit(q, r, "link.id"), ok
}

func idsOf(rows []*found) []string {
	ids := make([]string, 0, len(rows))
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return ids
}

// span bounds a walk along the ids to where links have the tag: that of a campaign is often common among the links of
// one month, and rare ever since.
func (n *search) span(q *bun.SelectQuery) *bun.SelectQuery {
	if n.narrow {
		return q
	}
	for _, tags := range n.tagged() {
		if len(tags) == 1 {
			q = q.Where("link.id >= (SELECT min(link_id) FROM link_tags WHERE workspace_id = ? AND tag = ?)", n.member.ID(), tags[0]).
				Where("link.id <= (SELECT max(link_id) FROM link_tags WHERE workspace_id = ? AND tag = ?)", n.member.ID(), tags[0])
		}
	}
	return q
}

// where keeps the links that the filter lets through.
func (n *search) where(q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("link.workspace_id = ?", n.member.ID()).Where("link.purged_at IS NULL")
	if len(n.Status) > 0 {
		q = ofStatus(q, n.now, n.Status...)
	} else {
		q = q.Where("link.deleted_at IS NULL OR link.disabled_at IS NOT NULL") // those that are not Deleted
	}
	if n.narrow {
		q = q.Where("link.id IN (?)", bun.In(n.few))
	}
	if len(n.Strategy) > 0 {
		q = q.Where("link.strategy IN (?)", bun.In(n.Strategy))
	}
	if n.Archived != nil {
		q = q.Where("(link.archived_at IS NOT NULL) = ?", *n.Archived)
	}
	if n.CreatedFrom != nil {
		q = q.Where("link.created_at >= ?", db.Instant(*n.CreatedFrom))
	}
	if n.CreatedTo != nil {
		q = q.Where("link.created_at < ?", db.Instant(*n.CreatedTo))
	}
	for _, word := range n.words {
		q = n.contains(q, "link.search", word)
	}
	for _, tags := range n.tagged() {
		q = q.Where("EXISTS (SELECT 1 FROM link_tags WHERE link_tags.link_id = link.id AND link_tags.tag IN (?))", bun.In(tags))
	}
	return q
}

// ofStatus restricts a query to links that are in one of the states at an instant.
func ofStatus(q *bun.SelectQuery, now time.Time, in ...routing.Status) *bun.SelectQuery {
	expression, args := routing.StatusSQL(now)
	return q.Where(expression+" IN (?)", append(args, bun.In(in))...)
}
