// Package webhook owns the webhooks of workspaces: their settings and secrets, which events each of them
// receives, and the attempts to send these, by the Standard Webhooks specification, version 1.0.0. It reads
// the event log of package audit and the clicks of package clickstream, and writes neither, except for the
// events about webhooks. Package graph renders the bodies and has the API, package cli the operator's
// commands; the server runs the Dispatcher.
package webhook

import (
	"context"
	"net/netip"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/clickstream"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/destination"
	"github.com/linkforge/linkforge/internal/feed"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/sealed"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Limits of one workspace and one webhook.
const (
	maxPerWorkspace = 20
	maxTags         = 20
	maxTag          = 50
	maxName         = 100
	// Retention is how long deliveries and attempts are stored.
	Retention = audit.FeedRetention
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
	Types     []audit.Action `bun:"type:text"`
	Tags      []string       `bun:"type:text"`
	// Selection on the type Event; nil selects the default.
	Selection *string
	// NeedsStats says that Selection reads statistics or clicks.
	NeedsStats bool
	// SelectionError is why the default is sent instead.
	SelectionError *string
	Status         Status
	// Blocked says that the operator has disabled it.
	Blocked bool
	// Secret and OldSecret are encrypted. The old one signs until OldSecretEndsAt.
	Secret, OldSecret []byte
	OldSecretEndsAt   *time.Time
	feed.Position
	// LastNumber is the number of the last delivery.
	LastNumber int64
	// WantsClicks says that Types has LINK_CLICKED. ClickXID, ClickBatch and ClickID are the position among
	// clicks, as of ClicksAt.
	WantsClicks         bool
	ClickXID            int64 `bun:"click_xid"`
	ClickBatch, ClickID int64
	ClicksAt            time.Time
	SkippedClicks       int64
	// DueAt is when deliveries have to be looked at.
	DueAt *time.Time
	// Concurrency is how many deliveries all nodes may send at once: 1 after a slow failure, doubled by each success.
	Concurrency int64
	// FailingSince is the time since which all attempts have failed; nil if the last one succeeded.
	FailingSince *time.Time
	// Notice is why it was disabled, while the email about it has not been handed over.
	Notice    *notice
	CreatedAt time.Time
	// CreatedBy is the id of an account or an API key.
	CreatedBy string
	// KeptBy is the account that has enabled it since its creator, an account, lost the permission; nil: none. The
	// webhook depends on the permission of KeptBy then.
	KeptBy *string
	// DeletedAt is set until CleanUp removes a deleted webhook. Statements with this model leave it out.
	DeletedAt *time.Time `bun:",soft_delete"`

	// In is the membership that read it.
	In workspace.Membership `bun:"-"`
}

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
	Sealed sealed.Box
	Now    func() time.Time
}

func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// Rows returns the webhooks of workspaces, newest first.
func (s *Store) Rows() workspace.Collection[Webhook] {
	return workspace.Collection[Webhook]{
		DB: s.DB, Permission: workspace.WriteWebhooks, Prefix: id.Webhook, Column: "id",
		Missing: "There is no such webhook.", In: func(w *Webhook, m workspace.Membership) { w.In = m },
	}
}

// fields are the settings with their names in the API, for the audit log.
func (w *Webhook) fields() []audit.Field {
	return []audit.Field{
		{Name: "name", Value: w.Name}, {Name: "url", Value: w.URL}, {Name: "types", Value: w.Types},
		{Name: "tags", Value: w.Tags}, {Name: "selection", Value: w.Selection}, {Name: "status", Value: w.Status},
	}
}

// settings are the columns that callers change.
var settings = []string{
	"name", "url", "host", "types", "tags", "selection", "needs_stats", "selection_error", "status", "xid", "seq",
	"due_at", "failing_since", "wants_clicks", "click_xid", "click_batch", "click_id", "clicks_at", "kept_by",
}
