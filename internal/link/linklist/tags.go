package linklist

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Tag is a tag of links of a workspace.
type Tag struct {
	Name string
	// LinkCount is the number of links that have it, without deleted ones.
	LinkCount int64
}

// TagOrder is the order of lists of tags: by the bytes of their names.
var TagOrder = page.Order{Name: "TAG", Ascending: true}

// tagBatch is how many names a statement reads to search for a prefix.
const tagBatch = 1000

// ListTags returns one page, with cursors, of the tags that links of the workspace have, without
// those of deleted links only. Their names begin with the prefix without regard to case. It returns
// InvalidInput or Forbidden.
func (s *Store) ListTags(
	ctx context.Context, m workspace.Membership, prefix string, r page.Request,
) (p page.Page[*Tag], err error) {
	ctx, err = m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return p, err
	}
	if prefix, err = linkfield.CheckTagPrefix(prefix); err != nil {
		return p, err
	}
	ctx, cancel := s.DB.Briefly(ctx)
	defer cancel()
	names, err := s.tagNames(ctx, m, validate.Fold(prefix), r)
	if err != nil {
		return p, fmt.Errorf("listing tags: %w", err)
	}
	of := page.Cut(r, names)
	p.HasNext, p.HasPrevious = of.HasNext, of.HasPrevious
	p.Total = func(ctx context.Context) (int64, error) { return s.countTags(ctx, m, prefix) }
	if p.Items, err = s.countTagged(ctx, m, of.Items); err != nil {
		return p, fmt.Errorf("counting the links of tags: %w", err)
	}
	for _, tag := range p.Items {
		p.Cursors = append(p.Cursors, r.Order.Cursor(tag.Name, ""))
	}
	return p, nil
}

// countTags counts what ListTags lists.
func (s *Store) countTags(ctx context.Context, m workspace.Membership, prefix string) (int64, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return 0, err
	}
	ctx, cancel := s.DB.Briefly(ctx)
	defer cancel()
	names, err := s.tagNames(ctx, m, validate.Fold(prefix), page.Request{Size: math.MaxInt - 1})
	if err != nil {
		return 0, fmt.Errorf("counting tags: %w", err)
	}
	return int64(len(names)), nil
}

// tagNames returns the names of a page and one more that begin with the folded prefix, in their
// order. The databases fold ASCII only, so all names are read, each by one access to the primary
// key.
func (s *Store) tagNames(
	ctx context.Context, m workspace.Membership, prefix string, r page.Request,
) (names []string, err error) {
	limit := min(r.Size+1, tagBatch)
	if prefix != "" {
		limit = tagBatch
	}
	for after := r.After; ; {
		var some []string
		err := s.DB.NewRaw("WITH RECURSIVE names (tag) AS (SELECT (?) UNION ALL SELECT (?) FROM names WHERE tag IS "+
			"NOT NULL) "+
			"SELECT tag FROM names WHERE EXISTS (?) LIMIT ?",
			s.nextTag(m, "?", after), s.nextTag(m, "names.tag"), s.listedWithTag(m), limit).Scan(ctx, &some)
		if err != nil {
			return nil, err
		}
		for _, name := range some {
			if after = name; strings.HasPrefix(validate.Fold(name), prefix) {
				names = append(names, name)
			}
			if len(names) > r.Size {
				return names, nil
			}
		}
		if len(some) < limit {
			return names, nil
		}
	}
}

// nextTag selects the first name after another one.
func (s *Store) nextTag(m workspace.Membership, name string, args ...any) *bun.SelectQuery {
	return s.DB.NewSelect().TableExpr("link_tags AS t").ColumnExpr("t.tag").Where("t.workspace_id = ?", m.ID()).
		Where("t.tag > "+name, args...).OrderExpr("t.tag").Limit(1)
}

// listedWithTag selects the links of a name that are not deleted. The subquery, unlike a join,
// makes the databases stop at the first one.
func (s *Store) listedWithTag(m workspace.Membership) *bun.SelectQuery {
	return s.DB.NewSelect().TableExpr("link_tags AS t").ColumnExpr("1").Where("t.workspace_id = ?", m.ID()).
		Where("t.tag = names.tag").Apply(m.InsideByID("t.link_id")).
		Where("(SELECT " + notDeleted + " FROM links AS link WHERE link.id = t.link_id)")
}

// countTagged returns the tags of the names that links have, in the order of the names. It counts
// the rows of tags, which an index has, and subtracts those of deleted links, which are few:
// joining all of them with their links takes ten times as long.
func (s *Store) countTagged(ctx context.Context, m workspace.Membership, names []string) (tags []*Tag, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	all := s.DB.NewSelect().TableExpr("link_tags AS t").ColumnExpr("t.tag, count(*) AS n").
		Where("t.workspace_id = ?", m.ID()).
		Where("t.tag IN (?)", bun.In(names)).Apply(m.InsideByID("t.link_id")).Group("t.tag")
	deleted := s.DB.NewSelect().TableExpr("links AS link").Join("JOIN link_tags AS t ON t.link_id = link.id").
		ColumnExpr("t.tag, count(*) AS n").Where("link.workspace_id = ?", m.ID()).Where("link.purged_at IS NULL").
		Where("NOT ("+notDeleted+")").Apply(m.Inside("link.folder_id")).Where("t.tag IN (?)", bun.In(names)).
		Group("t.tag")
	err = s.DB.NewSelect().With("deleted", deleted).TableExpr("(?) AS whole", all).
		Join("LEFT JOIN deleted ON deleted.tag = whole.tag").
		ColumnExpr("whole.tag AS name, whole.n - coalesce(deleted.n, 0) AS link_count").
		Where("whole.n > coalesce(deleted.n, 0)").OrderExpr("whole.tag").Scan(ctx, &tags)
	return tags, err
}
