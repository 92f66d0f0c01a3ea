// Package link creates, updates, deletes and claims short links, and looks them up by ID or
// address. It owns their rows and rules; package linklist lists and searches them, package routing
// decides what they respond. The GraphQL resolvers, the jobs and the commands call it.
package link

import (
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Strategy is how a link's code is made.
type Strategy string

// The strategies.
const (
	// Deterministic computes the code from the canonical URL and the workspace: the same URL in the
	// same workspace is always the same link.
	Deterministic Strategy = "DETERMINISTIC"
	// Counter numbers links through, and writes the number as a code that tells nothing of it.
	Counter Strategy = "COUNTER"
	// Random draws the code.
	Random Strategy = "RANDOM"
	// Custom takes the caller's words.
	Custom Strategy = "CUSTOM"
)

// idempotent says whether creating the same link again answers with the one that is there.
func (s Strategy) idempotent() bool { return s == Deterministic || s == Custom }

// Kind says for how long a link is meant.
type Kind string

// The kinds.
const (
	// Temporary links belong to nobody and end after some hours, unless somebody claims them.
	Temporary Kind = "TEMPORARY"
	// Permanent links belong to a workspace.
	Permanent Kind = "PERMANENT"
)

// Link is a short link.
type Link struct {
	bun.BaseModel `bun:"table:links"`

	ID          string `bun:",pk"`
	WorkspaceID string
	// Code is the last segment of the short URL. RootCode is the same when the code answers at the
	// root, where it is unique over the instance; else it is nil.
	Code     string
	RootCode *string
	Strategy Strategy
	// OriginalURL is the URL as it was given, CanonicalURL its canonical form.
	OriginalURL   string
	CanonicalURL  string
	CanonicalHash []byte
	Title         *string
	// Note is for the members.
	Note *string
	routing.Settings
	// Granted is how many redirects the link has answered; it is kept only while there is a MaxClicks.
	Granted int64
	// ArchivedAt is when a member put the link away. It goes on redirecting.
	ArchivedAt *time.Time
	// StatsPublic says that everybody may look at its stats.
	StatsPublic bool
	// CreatedBy is the account that made the link, or claimed it.
	CreatedBy *string
	CreatedAt time.Time
	UpdatedAt time.Time
	// DeletedAt and DisabledAt are when a member or the operator took the link down.
	DeletedAt  *time.Time
	DisabledAt *time.Time
	// EndedAt is when the link was deleted or, once the clean-up has seen it, when it expired.
	// PurgedAt is when all of it was removed but what keeps the URL's code.
	EndedAt  *time.Time
	PurgedAt *time.Time
	// ClaimHash is the SHA-256 of the token by which an anonymous link can be claimed.
	ClaimHash []byte
	// DestinationStatus is what the destination answered when it was last asked; nil means nothing.
	DestinationStatus *int
	LastCheckedAt     *time.Time
	// CheckAt is when the destination is to be asked next, CheckFailures how often in a row it has not
	// been well.
	CheckAt       *time.Time
	CheckFailures int

	// In is the membership by which the link was reached.
	In workspace.Membership `bun:"-"`
	// tags are to be written with the link; nil means that they stay as they are.
	tags []string
}

// record is a link as its table has it: with what is computed for finding it.
type record struct {
	Link `bun:",extend"`

	// TitleKey is the title as it is put into order, Search what text is looked for in.
	TitleKey string
	Search   string
}

func recordOf(l *Link) *record {
	r := &record{Link: *l}
	if l.PurgedAt == nil {
		r.TitleKey = Fold(optional.Value(l.Title))
		texts := []string{r.TitleKey, Fold(optional.Value(l.Note)), Fold(l.OriginalURL), Fold(l.Code)}
		r.Search = strings.Join(texts, "\n")
	}
	return r
}

// Fold returns text as links are searched and sorted by it: in lower case. The databases do not
// fold it, because each does so differently.
func Fold(s string) string { return strings.ToLower(s) }

// Kind says for how long the link is meant.
func (l *Link) Kind() Kind {
	if l.WorkspaceID == workspace.PublicID {
		return Temporary
	}
	return Permanent
}

// RedirectsTo reports whether redirects of the link go to exactly the URL, as it was given.
func (l *Link) RedirectsTo(url string) bool {
	return urlnorm.Location(l.OriginalURL) == urlnorm.Location(url)
}

// Archived says that a member has put the link away.
func (l *Link) Archived() bool { return l.ArchivedAt != nil }

// IsHidden reports whether the short URL responds as if the link did not exist.
func (l *Link) IsHidden(now time.Time) bool {
	p := routing.Program{Lifecycle: l.Lifecycle()}
	p.Exhausted = false // a limit hides nothing
	return routing.Decide(&p, routing.Request{Now: now}).Page == routing.NotFound
}

// Lifecycle returns the facts that determine the link's state.
func (l *Link) Lifecycle() routing.Lifecycle {
	c := routing.NewLifecycle(l.StartsAt, l.ExpiresAt)
	c.Disabled, c.Deleted = l.DisabledAt != nil, l.DeletedAt != nil
	c.Exhausted = l.MaxClicks != nil && l.Granted >= *l.MaxClicks
	return c
}

// Status is the state of the link at an instant.
func (l *Link) Status(now time.Time) routing.Status {
	c := l.Lifecycle()
	return c.Status(now)
}
