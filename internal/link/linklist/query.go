package linklist

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// maxSearchLength is in characters.
	maxSearchLength = 200
	maxSearchWords  = 10
	// maxCandidates limits the links found by an index of tags or text that are checked one by one.
	// If there are more, a walk along the order of the page meets enough of them soon.
	maxCandidates = 5000
)

// query is a checked filter, in a workspace, at an instant.
type query struct {
	*Store
	Filter
	member workspace.Membership
	now    time.Time
	words  []string
	// named is the id of the link whose short URL is the search; empty for none.
	named string
	// folders are the folders of the links that can match; nil means all links.
	folders []string
	// hostKey is the link.HostKey of Host.
	hostKey string
	// leadsTo is the host of a URL of the links; empty for any.
	leadsTo string
	// narrowed reports that candidates contains the IDs of all links that can match.
	narrowed   bool
	candidates []string
}

// prepare checks the filter, and narrows the query to candidates if an index finds at most
// maxCandidates.
func (s *Store) prepare(
	ctx context.Context, m workspace.Membership, f *Filter, maxCandidates int,
) (q *query, err error) {
	q = &query{Store: s, member: m, now: db.Instant(s.Now()), Filter: optional.Value(f)}
	if err := q.check(); err != nil {
		return nil, err
	}
	if q.named, err = q.linkNamed(ctx, optional.Value(q.Search)); err != nil {
		return nil, err
	}
	if err := q.narrow(ctx, maxCandidates); err != nil {
		return nil, fmt.Errorf("searching links: %w", err)
	}
	return q, nil
}

// CheckFilter returns the InvalidInput or Forbidden of a filter in a workspace.
func (s *Store) CheckFilter(m workspace.Membership, f *Filter) error {
	q := &query{Store: s, member: m, Filter: optional.Value(f)}
	return q.check()
}

// searchWords splits a search into words as they are stored with links.
func searchWords(search string) ([]string, error) {
	line, err := validate.Line("The search", search, 0, maxSearchLength)
	if err != nil {
		return nil, errs.At(err, "search")
	}
	words := strings.Fields(validate.Fold(line))
	if len(words) > maxSearchWords {
		return nil, errs.New(errs.InvalidInput, "A search has up to %d words; this one has %d.",
			maxSearchWords, len(words)).At("search")
	}
	return words, nil
}

// linkNamed returns the id of the link of the workspace whose short URL a text is; empty for none. A code
// alone is a word.
func (q *query) linkNamed(ctx context.Context, text string) (string, error) {
	if !strings.ContainsAny(text, "/+?&") {
		return "", nil
	}
	l, err := q.links.Pasted(ctx, text, q.member.Slug())
	switch {
	case errs.Is(err, errs.NotFound):
		return "", nil
	case err != nil:
		return "", err
	case l.WorkspaceID != q.member.ID():
		return "", nil
	}
	return l.ID, nil
}

// narrow queries the indexes in turn until one finds at most limit candidates. It determines only
// where to search: the filter is applied to the candidates later. Neither database is left to
// estimate how common a word is.
func (q *query) narrow(ctx context.Context, limit int) error {
	for _, lookup := range q.valueLookups() {
		if err := q.narrowTo(ctx, limit, lookup); err != nil || q.narrowed {
			return err
		}
	}
	for _, tags := range q.tagGroups() {
		var lookups []*bun.SelectQuery
		for _, tag := range tags {
			// The order makes the database read the index instead of the tags of all workspaces.
			lookups = append(lookups, q.DB.NewSelect().Table("link_tags").Column("link_id").
				Where("workspace_id = ?", q.member.ID()).Where("tag = ?", tag).Order("link_id"))
		}
		if err := q.narrowTo(ctx, limit, lookups...); err != nil || q.narrowed {
			return err
		}
	}
	lookups := q.textLookups(q.member.ID(), q.words)
	if len(lookups) == 0 {
		return nil
	}
	if common, err := q.wordsAreCommon(ctx); err != nil || common {
		return err
	}
	// The resolver sees the links of all workspaces: PostgreSQL does not use the text index before
	// it has checked whose a row is. All candidates are read again in the scope of the workspace.
	ctx, cancel := q.DB.Briefly(db.AsResolver(ctx))
	defer cancel()
	err := q.narrowTo(ctx, limit, lookups...)
	if q.narrowed && q.named != "" {
		q.candidates = append(q.candidates, q.named)
	}
	return err
}

// narrowTo makes the IDs that the lookups find together the candidates, if there are at most limit.
func (q *query) narrowTo(ctx context.Context, limit int, lookups ...*bun.SelectQuery) error {
	var ids []string
	for _, lookup := range lookups {
		var more []string
		if err := lookup.Limit(int64(limit)+1).Scan(ctx, &more); err != nil {
			return err
		}
		if ids = append(ids, more...); len(ids) > limit {
			return nil
		}
	}
	q.narrowed, q.candidates = true, ids
	return nil
}

const (
	// sampleSize is how many of the newest links are checked to find out how common words are.
	// Words that one of commonRatio links has are common: walking any order fills the page soon.
	sampleSize  = 500
	commonRatio = 10
)

// wordsAreCommon reports whether many of the newest links contain the words. An index would find
// too many candidates, and not every database stops at the limit.
func (q *query) wordsAreCommon(ctx context.Context) (bool, error) {
	if q.stopsAtLimit() {
		return false, nil
	}
	newest := q.DB.NewSelect().Table("links").Column("search").Where("workspace_id = ?", q.member.ID()).
		Where("purged_at IS NULL").Order("id DESC").Limit(sampleSize)
	sel := q.DB.NewSelect().TableExpr("(?) AS newest", newest)
	for _, word := range q.words {
		sel = q.DB.Contains(sel, "newest.search", word)
	}
	count, err := sel.Count(ctx)
	return count >= sampleSize/commonRatio, err
}

// tagGroups returns groups of tags: a link matches if it has at least one tag of every group.
func (q *query) tagGroups() (groups [][]string) {
	if len(q.Tags) == 0 {
		return nil
	}
	if q.TagMatch != AllTags {
		return [][]string{q.Tags}
	}
	for _, tag := range q.Tags {
		groups = append(groups, []string{tag})
	}
	return groups
}
