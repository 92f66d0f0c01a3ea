package link

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/workspace"
)

// edit locks links of the workspace, lets change make each what it is to become, and writes those that have
// become something else, in one transaction and a handful of statements. A link that is named twice is changed
// twice. change may run again, with the links as they are then.
func (s *Store) edit(
	ctx context.Context, m workspace.Membership, ids []string, policy Policy,
	change func(ctx context.Context, tx bun.Tx, i int, l *Link) error,
) (results []Result, err error) {
	if err := m.Need(workspace.Editor); err != nil {
		return nil, err
	}
	if err := checkBatch(len(ids)); err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		links, err := s.lock(ctx, tx, m, ids)
		if err != nil {
			return err
		}
		results = make([]Result, len(ids))
		changed := map[string]*Link{}
		for i, linkID := range ids {
			results[i] = s.editOne(links[linkID], func(l *Link) error { return change(ctx, tx, i, l) })
			after := results[i].Link
			if after == nil {
				continue
			}
			if !after.UpdatedAt.Equal(links[linkID].UpdatedAt) {
				changed[linkID] = after
			}
			links[linkID] = after
		}
		if err := internal(results); err != nil {
			return err
		}
		if policy == AllOrNothing && abandon(results) {
			return errAbandoned
		}
		return s.write(ctx, tx, changed)
	})
	if err != nil && !errors.Is(err, errAbandoned) {
		return nil, fmt.Errorf("changing links: %w", err)
	}
	return results, nil
}

// editOne changes a copy of the link, so that what is refused in the middle leaves nothing behind.
func (s *Store) editOne(l *Link, change func(*Link) error) Result {
	if l == nil || l.PurgedAt != nil {
		return Result{Err: errNotFound()}
	}
	after := *l
	if err := change(&after); err != nil {
		return Result{Err: err}
	}
	return Result{Link: &after}
}

// only is the result of a batch of one.
func only(results []Result, err error) (*Link, error) {
	if err != nil {
		return nil, err
	}
	return results[0].Link, results[0].Err
}

func checkBatch(n int) error {
	if n < 1 || n > MaxBatch {
		return errs.New(errs.InvalidInput, "A batch has from 1 to %d links; this one has %d.", MaxBatch, n)
	}
	return nil
}

// internal is the first error that is nobody's to mend, or nil.
func internal(results []Result) error {
	for _, r := range results {
		if r.Err != nil && !errs.From(r.Err).Kind.Mendable() {
			return r.Err
		}
	}
	return nil
}

// abandon takes the results of a batch that is all or nothing back when there is an error among them, and reports
// whether there is.
func abandon(results []Result) bool {
	if !slices.ContainsFunc(results, func(r Result) bool { return r.Err != nil }) {
		return false
	}
	for i, r := range results {
		if r.Err == nil {
			results[i] = Result{Err: errs.New(errs.Conflict, "Another link of the batch has an error, so nothing was done.")}
		}
	}
	return true
}

// lock loads links of the workspace and keeps everybody else from changing them. Those that do not exist are
// missing from the answer.
func (s *Store) lock(ctx context.Context, tx bun.Tx, m workspace.Membership, ids []string) (map[string]*Link, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(linkID string) bool { return !id.Valid(id.Link, linkID) })
	var links []*Link
	// In the order of ids, as everybody locks them: no two then wait for each other.
	q := tx.NewSelect().Model(&links).Where("workspace_id = ?", m.ID()).Where("id IN (?)", bun.In(ids)).Order("id")
	if err := s.forUpdate(q).Scan(ctx); err != nil {
		return nil, fmt.Errorf("locking links: %w", err)
	}
	byID := make(map[string]*Link, len(links))
	for _, l := range links {
		l.In = m
		byID[l.ID] = l
	}
	return byID, nil
}

// write keeps links that have been changed.
func (s *Store) write(ctx context.Context, tx bun.Tx, changed map[string]*Link) error {
	rows := make([]*record, 0, len(changed))
	for _, l := range changed {
		rows = append(rows, recordOf(l))
	}
	for chunk := range statements(rows) {
		q := tx.NewUpdate().With("after", tx.NewValues(&chunk)).Model((*Link)(nil)).TableExpr("after").Where("link.id = after.id")
		for _, column := range []string{
			"original_url", "canonical_url", "canonical_hash", "title", "note", "title_key", "search", "redirect_status",
			"starts_at", "expires_at", "max_clicks", "granted", "archived_at", "updated_at", "deleted_at", "ended_at",
			"purged_at", "destination_status", "last_checked_at", "check_at", "check_failures",
		} {
			q = q.Set("? = after.?", bun.Ident(column), bun.Ident(column))
		}
		if _, err := q.Exec(ctx); err != nil {
			return fmt.Errorf("writing links: %w", err)
		}
	}
	return s.writeTags(ctx, tx, rows)
}
