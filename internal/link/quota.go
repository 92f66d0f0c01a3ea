package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/month"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/workspace"
)

// QuotaOf returns how many links the workspace may create in a month.
func (s *Store) QuotaOf(m workspace.Membership) int64 {
	if own := m.Workspace().LinkQuota; own != nil {
		return *own
	}
	return s.LinkQuota
}

// Usage returns how many links the workspace has created in the current month, and the month.
func (s *Store) Usage(ctx context.Context, m workspace.Membership) (links int64, this month.Month, err error) {
	ctx, err = m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return 0, 0, err
	}
	this = month.Of(s.Now())
	err = s.DB.NewSelect().Table("link_usage").Column("links").
		Where("workspace_id = ?", m.ID()).Where("month = ?", this.String()).Scan(ctx, &links)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, this, fmt.Errorf("reading a workspace's usage: %w", err)
	}
	return links, this, nil
}

// SpaceUsage is the usage and the quota of new links of a workspace in a month.
type SpaceUsage struct {
	ID, Slug, Name string
	Links, Quota   int64
}

// Usages returns the usage of all workspaces in the current month, ordered by id, for the operator.
func (s *Store) Usages(ctx context.Context) ([]SpaceUsage, error) {
	var usages []SpaceUsage
	err := s.DB.NewSelect().TableExpr("workspaces AS w").
		Join("LEFT JOIN link_usage AS u ON u.workspace_id = w.id AND u.month = ?", month.Of(s.Now()).String()).
		ColumnExpr("w.id, w.slug, w.name, COALESCE(u.links, 0) AS links, COALESCE(w.link_quota, ?) AS quota", s.LinkQuota).
		Where("w.deleted_at IS NULL").OrderExpr("w.id").Scan(db.AsSystem(ctx), &usages)
	if err != nil {
		return nil, fmt.Errorf("reading the usage of workspaces: %w", err)
	}
	return usages, nil
}

// allowance is what a batch may insert in a workspace.
type allowance struct {
	wanted, created int
	// left is how many more links the quota permits.
	left int64
}

// UsageRow is how many links a workspace has created in a month.
type UsageRow struct {
	bun.BaseModel `bun:"table:link_usage"`

	WorkspaceID string `bun:",pk"`
	Month       string `bun:",pk"`
	Links       int64
}

// quotaOf returns the allowance of the item's workspace.
func (b *batch) quotaOf(it *item) *allowance { return b.quotas[it.call.member.ID()] }

// consumeQuotas consumes the quotas for the unresolved items, even beyond the limits, and with that locks them:
// transactions of a workspace insert links one after the other. A shared batch leaves the workspaces whose quota is
// locked, or has no row yet. Anonymous links have no quota.
func (b *batch) consumeQuotas(ctx context.Context, tx bun.Tx) error {
	quotas := map[string]*allowance{}
	for _, it := range b.unresolved() {
		workspaceID := it.call.member.ID()
		if quotas[workspaceID] == nil {
			quotas[workspaceID] = &allowance{left: b.QuotaOf(it.call.member)}
		}
		quotas[workspaceID].wanted++
	}
	if public := quotas[workspace.PublicID]; public != nil {
		public.left = math.MaxInt64
	}
	const unlocked = `CROSS JOIN LATERAL (SELECT FROM link_usage AS locked WHERE locked.workspace_id = input.workspace_id
		AND locked.month = input.month FOR UPDATE SKIP LOCKED) AS unlocked `
	rest := ""
	if b.isShared && b.DB.Kind == db.Postgres {
		rest = unlocked
	}
	used, err := AddUsage(ctx, tx, rest, b.usagesOf(quotas, func(a *allowance) int { return a.wanted })...)
	if err != nil {
		return err
	}
	isCharged := map[string]bool{workspace.PublicID: true}
	for _, u := range used {
		a := quotas[u.WorkspaceID]
		a.left, isCharged[u.WorkspaceID] = max(0, a.left-u.Links+int64(a.wanted)), true
	}
	maps.DeleteFunc(quotas, func(workspaceID string, _ *allowance) bool { return !isCharged[workspaceID] })
	err = b.leave(func(it *item) bool {
		return it.pending() && it.attempt.isEmpty() && !isCharged[it.call.member.ID()]
	})
	b.quotas = quotas
	return err
}

// returnQuotas returns links that were consumed and not created.
func (b *batch) returnQuotas(ctx context.Context, tx bun.Tx) error {
	_, err := AddUsage(ctx, tx, "", b.usagesOf(b.quotas, func(a *allowance) int { return a.created - a.wanted })...)
	return err
}

// usagesOf returns how many links to add to the usage of workspaces, in the order of their ids.
func (b *batch) usagesOf(quotas map[string]*allowance, links func(*allowance) int) (rows []UsageRow) {
	for _, workspaceID := range slices.Sorted(maps.Keys(quotas)) {
		if n := links(quotas[workspaceID]); n != 0 && workspaceID != workspace.PublicID {
			rows = append(rows, NewUsage(workspaceID, b.now, n))
		}
	}
	return rows
}

func NewUsage(workspaceID string, at time.Time, links int) UsageRow {
	return UsageRow{WorkspaceID: workspaceID, Month: month.Of(at).String(), Links: int64(links)}
}

// AddUsage adds to the usage of workspaces, and returns how much that is now. The source may restrict input.
func AddUsage(ctx context.Context, tx bun.Tx, source string, rows ...UsageRow) (used []UsageRow, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	err = db.InsertReturning(ctx, tx, db.Insert{Into: "link_usage AS u", Rest: source + `ON CONFLICT (workspace_id, month)
		DO UPDATE SET links = u.links + excluded.links RETURNING workspace_id, month, links`}, rows, &used)
	if err != nil {
		return nil, fmt.Errorf("consuming quotas: %w", err)
	}
	return used, nil
}

// affordable returns the first of the items in each workspace, as many as its quota permits.
func (b *batch) affordable(items []*item) (some []*item) {
	taken := map[*allowance]int64{}
	for _, it := range items {
		if a := b.quotaOf(it); taken[a] < a.left {
			taken[a]++
			some = append(some, it)
		}
	}
	return some
}

// distinct returns the items without those that want the code or the external id of an earlier one, which gets it.
func distinct(items []*item) []*item {
	type key struct {
		place
		isCode bool
	}
	given := map[key]bool{}
	return slices.DeleteFunc(items, func(it *item) bool {
		code, externalID := key{it.at(it.draft.Code), true}, key{it.at(optional.Value(it.draft.ExternalID)), false}
		isLater := given[code] || externalID.key != "" && given[externalID]
		given[code], given[externalID] = true, true
		return isLater
	})
}

// refuseForQuota fails items because the quota is used up.
func (b *batch) refuseForQuota(items []*item) {
	for _, it := range items {
		it.facts.overQuota = b.ErrQuota(it.call.member, b.now)
		it.decide()
	}
}

func (s *Store) ErrQuota(m workspace.Membership, now time.Time) *errs.Error {
	end := month.Of(now).End()
	return errs.New(errs.QuotaExceeded,
		"The workspace has made the %d links it may make this month. The next month begins at %s.",
		s.QuotaOf(m), end.Format("2006-01-02 15:04 MST")).After(end.Sub(now))
}
