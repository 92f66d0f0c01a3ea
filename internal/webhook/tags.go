package webhook

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/workspace"
)

// ReplaceTags replaces tags in the filters of the workspace's webhooks; nil removes them. A filter that would become empty
// stays, because it would select events about all links. The caller has checked the permission.
func (s *Store) ReplaceTags(ctx context.Context, tx bun.Tx, m workspace.Membership, from []string, to *string) error {
	var webhooks []*Webhook
	q := tx.NewSelect().Model(&webhooks).Where("workspace_id = ?", m.ID()).Order("id")
	if err := s.DB.ForChange(q).Scan(ctx); err != nil {
		return fmt.Errorf("reading the tags of webhooks: %w", err)
	}
	for _, w := range webhooks {
		before := *w
		w.Tags = slices.DeleteFunc(slices.Clone(w.Tags), func(tag string) bool { return slices.Contains(from, tag) })
		if len(w.Tags) == len(before.Tags) || len(w.Tags) == 0 && to == nil {
			continue
		}
		if to != nil {
			w.Tags = append(w.Tags, *to)
			slices.Sort(w.Tags)
			w.Tags = slices.Compact(w.Tags)
		}
		if _, err := tx.NewUpdate().Model(w).Column("tags").WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("replacing the tags of a webhook: %w", err)
		}
		err := audit.Write(ctx, tx, m.Event(s.now(), audit.WebhookUpdated, w.ID, audit.Details{"name": w.Name}).
			WithChanges(audit.Compare(before.fields(), w.fields())))
		if err != nil {
			return err
		}
	}
	return nil
}
