// Package webhook owns the webhooks of workspaces: their settings and secrets, which events each of
// them receives, and their deliveries with the attempts to send them. Package dispatch creates and
// sends deliveries, package graph has the API, package cli the operator's commands.
package webhook

import (
	"context"
	"net/netip"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click/clickstream"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Limits of one workspace and one webhook.
const (
	maxPerWorkspace = 20
	maxTags         = 20
	maxTag          = 50
	maxName         = 100
	// initialConcurrency is how many requests of a new webhook may be in flight.
	initialConcurrency = 2
)

// Status is the status of a webhook.
type Status string

// The statuses.
const (
	Active   Status = "ACTIVE"
	Paused   Status = "PAUSED"
	Disabled Status = "DISABLED"
)

// Webhook is an address that receives events.
type Webhook struct {
	bun.BaseModel `bun:"table:webhooks,alias:webhook"`

	ID          string `bun:",pk"`
	WorkspaceID string
	Name        string
	// URL is canonical, Host the canonical host of it.
	URL, Host string
	// Types and Tags, sorted, are rows of webhook_types and webhook_tags: see WithFilter.
	Types  []audit.Action `bun:"type:text,scanonly"`
	Tags   []string       `bun:"type:text,scanonly"`
	Status Status
	// Blocked says that the operator has disabled it.
	Blocked bool
	// Secret and OldSecret are encrypted. The old one signs until OldSecretEndsAt.
	Secret, OldSecret []byte
	OldSecretEndsAt   *time.Time
	// Position is up to where the event log has become deliveries, Until up to where there may be
	// events for it. It is behind if Until is later. Otherwise no event up to where the readers are
	// is for it.
	feed.Position
	Until feed.Position `bun:"embed:until_"`
	// Clicks is the position of the batch of clicks after which it receives clicks.
	Clicks        feed.Position `bun:"embed:click_"`
	SkippedClicks int64
	// DueAt is when deliveries have to be looked at.
	DueAt *time.Time
	// Concurrency is how many deliveries all nodes may send at once: 1 after a timeout or a slow
	// answer, doubled by each quick success.
	Concurrency int64
	// FailingSince is the time since which all attempts have failed; nil if the last one succeeded.
	FailingSince *time.Time
	// Notice is why it was disabled, while the email about it has not been handed over.
	Notice    *Notice
	CreatedAt time.Time
	// CreatedBy is the id of an account or an API key.
	CreatedBy string
	// KeptBy is the account that has enabled it since its creator, an account, lost the permission;
	// nil: none. The webhook depends on the permission of KeptBy then.
	KeptBy *string
	// DeletedAt is set until CleanUp removes a deleted webhook. Statements with this model leave it
	// out.
	DeletedAt *time.Time `bun:",soft_delete"`

	// In is the membership that read it.
	In workspace.Membership `bun:"-"`
}

func (*Webhook) IsEntity() {} // an entity of Apollo Federation

// Store stores webhooks. It is safe for concurrent use.
type Store struct {
	DB *db.DB
	// Clicks has the committed clicks.
	Clicks *clickstream.Live
	// Destinations refuses the hosts of this instance and blocked ones.
	Destinations destination.Checker
	// Allow reports whether an address may be connected to.
	Allow func(netip.Addr) bool
	// Lookup returns the addresses of a host, for the check of a new URL; nil skips it.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// AllowHTTP permits URLs without TLS, for development.
	AllowHTTP bool
	// Sealed encrypts the secrets. While it is empty, no webhook can be created.
	Sealed secrets.Box
	Now    func() time.Time
}

func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// Rows returns the webhooks of workspaces, newest first.
func (s *Store) Rows() workspace.Collection[Webhook] {
	return workspace.Collection[Webhook]{
		DB: s.DB, Permission: workspace.WriteWebhooks, Prefix: id.Webhook, Column: "id",
		Missing: "There is no such webhook.", Also: s.WithFilter,
		In: func(w *Webhook, m workspace.Membership) { w.In = m },
	}
}

// IsBehind reports whether there may be events for it that have no deliveries.
func (w *Webhook) IsBehind() bool { return w.Position.Compare(w.Until) < 0 }

// fields are the settings with their names in the API, for the audit log.
func (w *Webhook) fields() []audit.Field {
	return []audit.Field{
		{Name: "name", Value: w.Name}, {Name: "url", Value: w.URL}, {Name: "types", Value: w.Types},
		{Name: "tags", Value: w.Tags}, {Name: "status", Value: w.Status},
	}
}

// settings are the columns that callers change.
var settings = []string{
	"name", "url", "host", "status", "xid", "seq", "until_xid", "until_seq", "due_at", "failing_since", "click_xid",
	"click_seq", "kept_by",
}
