package webhook

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// typeRow is a type of events that a webhook receives.
type typeRow struct {
	bun.BaseModel `bun:"table:webhook_types"`

	Type                   audit.Action
	WorkspaceID, WebhookID string
}

// tagRow is a tag of the links whose events a webhook receives. A webhook without tags receives
// those of all links.
type tagRow struct {
	bun.BaseModel `bun:"table:webhook_tags"`

	WebhookID, Tag, WorkspaceID string
}

// WithFilter has a query of webhooks read their types and tags.
func (s *Store) WithFilter(q *bun.SelectQuery) *bun.SelectQuery {
	list := "json_group_array"
	if s.DB.Kind == db.Postgres {
		list = "json_agg"
	}
	return q.ColumnExpr("?TableColumns").
		ColumnExpr("(SELECT coalesce(CAST(?(type ORDER BY type) AS TEXT), '[]') FROM webhook_types WHERE webhook_id "+
			"= webhook.id) AS types", bun.Safe(list)).
		ColumnExpr("(SELECT coalesce(CAST(?(tag ORDER BY tag) AS TEXT), '[]') FROM webhook_tags WHERE webhook_id = "+
			"webhook.id) AS tags", bun.Safe(list))
}

// storeFilter replaces the types and tags of a webhook.
func storeFilter(ctx context.Context, tx bun.Tx, w *Webhook) error {
	for _, model := range []any{(*typeRow)(nil), (*tagRow)(nil)} {
		if _, err := tx.NewDelete().Model(model).Where("webhook_id = ?", w.ID).Exec(ctx); err != nil {
			return err
		}
	}
	var types []*typeRow
	for _, t := range w.Types {
		types = append(types, &typeRow{Type: t, WorkspaceID: w.WorkspaceID, WebhookID: w.ID})
	}
	if err := db.InsertRows(ctx, tx, db.Insert{}, types); err != nil {
		return err
	}
	var tags []*tagRow
	for _, tag := range w.Tags {
		tags = append(tags, &tagRow{WebhookID: w.ID, Tag: tag, WorkspaceID: w.WorkspaceID})
	}
	return db.InsertRows(ctx, tx, db.Insert{}, tags)
}

// Select selects the events of the log with the types and the tags of a webhook, by position. A
// purged link has no tags.
func (s *Store) Select(w *Webhook, r audit.LogRequest) *bun.SelectQuery {
	r.WorkspaceIDs = []string{w.WorkspaceID}
	// not in the log
	r.Actions = slices.DeleteFunc(slices.Clone(w.Types), func(t audit.Action) bool { return t == audit.LinkClicked })
	return audit.Select(s.DB, r).Where(TagsMatch, w.ID)
}

// TagsMatch is the condition that a webhook, whose id is its argument, has no tags, or one of those
// of the link of an event.
const TagsMatch = `NOT EXISTS (SELECT 1 FROM webhook_tags WHERE webhook_id = ?0) OR EXISTS (
	SELECT 1 FROM link_tags JOIN webhook_tags ON webhook_tags.tag = link_tags.tag
	WHERE link_tags.workspace_id = event.workspace_id AND link_tags.link_id = event.target_id
		AND webhook_tags.webhook_id = ?0)`

// maxCounted bounds the events of a webhook that unreadOf counts.
const maxCounted = 100_000

// unreadOf returns how many events webhooks will get deliveries of, by id. The context is that of
// the workspace.
func (s *Store) unreadOf(ctx context.Context, ids []string) (map[string]int64, error) {
	events := s.DB.NewSelect().TableExpr("audit_events AS event").ColumnExpr("1").
		Where("event.workspace_id = webhook.workspace_id").Where("event.seq IS NOT NULL").
		Where("(event.xid, event.seq) > (webhook.xid, webhook.seq)").
		Where("(event.xid, event.seq) <= (webhook.until_xid, webhook.until_seq)").Where("event.created_at > ?",
		s.now().Add(-audit.FeedRetention)).
		Where("event.action IN (SELECT type FROM webhook_types WHERE webhook_id = webhook.id)").
		Where(TagsMatch, bun.Safe("webhook.id")).
		Limit(maxCounted)
	var rows []struct {
		ID string
		N  int64
	}
	err := s.DB.NewSelect().Model((*Webhook)(nil)).Column("id").
		ColumnExpr("(SELECT count(*) FROM (?) AS unread) AS n", events).Where("id IN (?)", bun.In(ids)).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("counting events for webhooks: %w", err)
	}
	unread := map[string]int64{}
	for _, row := range rows {
		unread[row.ID] = row.N
	}
	return unread, nil
}

// ReplaceTags replaces tags in the filters of the workspace's webhooks; nil removes them. A filter
// that would become empty stays, because it would select events about all links. The caller has
// checked the permission.
func (s *Store) ReplaceTags(ctx context.Context, tx bun.Tx, m workspace.Membership, from []string, to *string) error {
	var ids []string
	q := tx.NewSelect().Model((*Webhook)(nil)).Column("id").Where("workspace_id = ?", m.ID()).Order("id")
	if err := s.DB.ForChange(q).Scan(ctx, &ids); err != nil {
		return fmt.Errorf("locking webhooks: %w", err)
	}
	var webhooks []*Webhook // a statement that waits for a lock reads other tables as of before
	if err := s.WithFilter(tx.NewSelect().Model(&webhooks)).Where("id IN (?)", bun.In(ids)).Order("id").
		Scan(ctx); err != nil {
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
		if err := storeFilter(ctx, tx, w); err != nil {
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

// Types are the types of events that webhooks can receive.
func Types() []audit.Action {
	return append(audit.FeedActions(), audit.LinkClicked)
}

func checkTypes(types []audit.Action) ([]audit.Action, error) {
	if len(types) == 0 {
		return nil, errs.New(errs.InvalidInput, "types must have at least one type of events.")
	}
	_, err := errs.Map(types, func(t audit.Action) (audit.Action, error) { return t, CheckType(t) })
	if err != nil {
		return nil, err
	}
	sorted := slices.Sorted(slices.Values(types))
	return slices.Compact(sorted), nil
}

// CheckType returns InvalidInput for a type that webhooks cannot receive.
func CheckType(t audit.Action) error {
	if slices.Contains(Types(), t) {
		return nil
	}
	return errs.New(errs.InvalidInput, "%s is not sent to webhooks. Use a type of the event log, or LINK_CLICKED.",
		validate.Quote(string(t)))
}

func checkTags(tags []string) ([]string, error) {
	all, err := errs.Map(tags, func(tag string) (string, error) { return validate.Line("A tag", tag, 1, maxTag) })
	if err != nil {
		return nil, err
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > maxTags {
		return nil, errs.New(errs.InvalidInput, "tags must have at most %d tags.", maxTags)
	}
	return all, nil
}
