package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/db"
)

const (
	// maxSending bounds the requests of a node in flight, maxPerHost those to one host.
	maxSending = 256
	maxPerHost = 32
	// A receiver that does not answer holds a request for attemptTimeout. So webhooks of an account
	// share a quarter of the requests of a node and of those to a host, those of a workspace an eighth,
	// and those that time out a half of each of these parts.
	slowDivisor, accountDivisor, workspaceDivisor = 2, 4, 8
	// maxDue is how many due webhooks one read returns.
	maxDue = 100
)

// accountOf is the expression of target.Account.
const accountOf = `coalesce((SELECT api_keys.created_by FROM api_keys WHERE api_keys.id = webhook.created_by),
	webhook.created_by)`

// subjects are the expressions of the subjects of bounds, by kind.
var subjects = func() map[string]string {
	all := map[string]string{
		"node": "''", "account": accountOf, "workspace": "workspace_id", "host": "host",
		"account and host": accountOf + " || ' ' || host", "workspace and host": "workspace_id || ' ' || host",
	}
	for kind, subject := range maps.Clone(all) {
		all[slow+kind] = "CASE concurrency WHEN 1 THEN " + subject + " ELSE '/' END" // which is no subject
	}
	return all
}()

// slow is the prefix of the kinds of bounds that webhooks that time out have as well.
const slow = "slow, by "

// allRequests bounds the requests of a node.
var allRequests = admission.Bound{Kind: "node", Max: maxSending}

// target is a webhook with the subjects of its requests.
type target struct {
	ID, WorkspaceID, Host string
	// Account is the creator, or the creator of the API key that created the webhook.
	Account string
	// Concurrency is that of the webhook.
	Concurrency int64
	// DueAt is since when it is due.
	DueAt time.Time
}

// bounds are those of the requests of a webhook in flight on this node.
func (t *target) bounds() []admission.Bound {
	all := []admission.Bound{
		allRequests, {Kind: "account", Subject: t.Account, Max: maxSending / accountDivisor}, t.ofWorkspace(),
		{Kind: "host", Subject: t.Host, Max: maxPerHost},
		{Kind: "account and host", Subject: t.Account + " " + t.Host, Max: maxPerHost / accountDivisor},
		{Kind: "workspace and host", Subject: t.WorkspaceID + " " + t.Host, Max: maxPerHost / workspaceDivisor},
	}
	if t.Concurrency == 1 {
		for _, b := range slices.Clone(all) {
			all = append(all, admission.Bound{Kind: slow + b.Kind, Subject: b.Subject, Max: b.Max / slowDivisor})
		}
	}
	return all
}

func (t *target) ofWorkspace() admission.Bound {
	return admission.Bound{Kind: "workspace", Subject: t.WorkspaceID, Max: maxSending / workspaceDivisor}
}

// targets selects webhooks as targets.
func (d *Dispatcher) targets() *bun.SelectQuery {
	return d.DB.NewSelect().Model((*webhook.Webhook)(nil)).Column("id", "workspace_id", "host", "concurrency").
		ColumnExpr(accountOf + " AS account")
}

// targetOf returns a webhook as a target.
func (d *Dispatcher) targetOf(ctx context.Context, webhookID string) (*target, error) {
	t := &target{}
	if err := d.targets().Where("id = ?", webhookID).Scan(db.AsSystem(ctx), t); err != nil {
		return nil, fmt.Errorf("looking up a webhook: %w", err)
	}
	return t, nil
}

// due returns webhooks with due deliveries that may send more, as their turns are: see turns.order.
// It leaves out webhooks of ended API keys
// and deleted workspaces.
func (d *Dispatcher) due(ctx context.Context) (rows []*target, err error) {
	if d.sending.Used(allRequests) == maxSending {
		return nil, nil
	}
	q := d.WithoutEnded(d.targets()).Column("due_at").Where("due_at <= ?", d.now()).Where("status = ?", webhook.Active).
		Order("due_at").Limit(maxDue)
	for kind, subject := range subjects {
		if full := d.sending.Full(kind); len(full) > 0 {
			q = q.Where(subject+" NOT IN (?)", bun.In(full))
		}
	}
	if paused := d.paused(); len(paused) > 0 {
		q = q.Where("id NOT IN (?)", bun.In(paused))
	}
	if err := q.Scan(db.AsSystem(ctx), &rows); err != nil {
		return nil, fmt.Errorf("looking up due webhooks: %w", err)
	}
	d.turns.order(rows, time.Now(), func(t *target) int64 { return d.sending.Used(t.ofWorkspace()) })
	return rows, nil
}
