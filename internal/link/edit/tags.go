package edit

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Replaced is the outcome of a call of ReplaceTags.
type Replaced struct {
	// Changed is the number of links that the call changed.
	Changed int
	// Remaining is the number of links that still have one of the tags.
	Remaining int64
	// OperationID is the same for all calls of a day with equal arguments; nil if the call changed
	// nothing.
	OperationID *string
}

// ReplaceTags gives up to MaxBatch links that have a tag in from the tag to instead; nil removes
// the tags. It changes deleted links too. Callers repeat the call until Remaining is 0: the
// webhooks of the workspace follow with that call. The calls of a day are one operation, see
// RevertOperation. It returns InvalidInput or Forbidden.
func (s *Store) ReplaceTags(
	ctx context.Context, m workspace.Membership, from []string, to *string,
) (r Replaced, err error) {
	ctx, err = m.EnterWhole(ctx, workspace.WriteLinks)
	if err != nil {
		return Replaced{}, err
	}
	if from, to, err = checkReplacement(from, to); err != nil || len(from) == 0 {
		return Replaced{}, err
	}
	e := link.Edits{Reason: updated, OperationID: replacementID(m, from, to), NeedTags: true}
	e.Mutate = func(_ int, l *link.Link) error {
		if tags := replaceTags(l.Tags, from, to); !slices.Equal(tags, l.Tags) {
			l.Tags = tags
			l.Touch(s.now())
		}
		return nil
	}
	_, err = s.transact(ctx, func(ctx context.Context, tx bun.Tx) (results []link.Result, err error) {
		r = Replaced{}
		if e.IDs, err = firstTagged(ctx, tx, m, from); err != nil {
			return nil, err
		}
		if len(e.IDs) > 0 {
			if results, err = s.EditIn(ctx, tx, m, e); err != nil {
				return nil, err
			}
		}
		for _, one := range results {
			if one.OperationID != "" {
				r.Changed++
			}
		}
		r.OperationID = link.OperationOf(results)
		return results, s.finishReplacing(ctx, tx, m, from, to, &r)
	})
	return r, err
}

// finishReplacing counts the remaining links, lets the webhooks follow when there are none, and
// records the call.
func (s *Store) finishReplacing(
	ctx context.Context, tx bun.Tx, m workspace.Membership, from []string, to *string, r *Replaced,
) error {
	err := tx.NewSelect().Table("link_tags").ColumnExpr("count(DISTINCT link_id)").Where("workspace_id = ?", m.ID()).
		Where("tag IN (?)", bun.In(from)).Scan(ctx, &r.Remaining)
	if err != nil {
		return fmt.Errorf("counting links with tags: %w", err)
	}
	if r.Remaining == 0 {
		if err := s.ReplaceWebhookTags(ctx, tx, m, from, to); err != nil {
			return err
		}
	}
	if r.Changed == 0 {
		return nil
	}
	return m.Audit(ctx, tx, s.now(), audit.TagsReplaced, m.ID(),
		audit.Details{"from": from, "to": to, "changed": r.Changed})
}

// checkReplacement returns the tags to replace, sorted and without the new one, and the new one. It
// returns InvalidInput.
func checkReplacement(from []string, to *string) ([]string, *string, error) {
	n := len(from)
	from, fromErr := linkfield.CheckTags(from)
	if n < 1 || n > linkfield.MaxTags {
		fromErr = errs.New(errs.InvalidInput, "from must have 1 to %d tags; it has %d.", linkfield.MaxTags, n)
	}
	var tags []string
	var toErr error
	if to != nil {
		tags, toErr = linkfield.CheckTags([]string{*to})
	}
	if err := errs.All(errs.Under(fromErr, "from"), errs.At(toErr, "to")); err != nil || to == nil {
		return from, nil, err
	}
	return slices.DeleteFunc(from, func(tag string) bool { return tag == tags[0] }), &tags[0], nil
}

// replacementID returns the id of today's operation of a replacement.
func replacementID(m workspace.Membership, from []string, to *string) string {
	parts := append([]string{m.ID()}, from...)
	if to != nil {
		parts = append(parts, "", *to) // no tag is empty
	}
	return id.Daily(id.Operation, parts...)
}

// replaceTags returns sorted tags with to, unless it is nil, instead of those in from.
func replaceTags(tags, from []string, to *string) []string {
	kept := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return slices.Contains(from, tag) })
	if to == nil || len(kept) == len(tags) {
		return kept
	}
	kept = append(kept, *to)
	slices.Sort(kept)
	return slices.Compact(kept)
}

// firstTagged returns the first MaxBatch ids of the workspace's links with one of the tags. It
// reads that many of each tag, because the index has the links of a tag in the order of their ids.
func firstTagged(ctx context.Context, tx bun.Tx, m workspace.Membership, tags []string) (ids []string, err error) {
	for _, tag := range tags {
		var some []string
		err := tx.NewSelect().Table("link_tags").Column("link_id").Where("workspace_id = ?", m.ID()).
			Where("tag = ?", tag).
			Order("link_id").Limit(link.MaxBatch).Scan(ctx, &some)
		if err != nil {
			return nil, fmt.Errorf("reading links with a tag: %w", err)
		}
		ids = append(ids, some...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return ids[:min(len(ids), link.MaxBatch)], nil
}
