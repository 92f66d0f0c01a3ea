// Package link owns the rows and rules of short links, with their versions and pending changes, and
// looks links up by ID or address. Only write.go, externalid.go and codekey.go update links, as
// writes_test.go of the root folder ensures; versions.go writes their versions, due.go applies due
// changes, and purge.go releases codes. Packages creation, edit and upkeep decide each change,
// package history reads versions, package linklist lists and searches links, and package routing
// decides their responses. The GraphQL resolvers and the commands call it too.
package link

import (
	"crypto/sha256"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Strategy is how a link gets its code.
type Strategy string

// The strategies.
const (
	// Deterministic computes the code from the canonical URL and the workspace: the same URL in the
	// same workspace is always the same link.
	Deterministic Strategy = "DETERMINISTIC"
	// Counter encrypts the value of a counter, see package codecounter.
	Counter Strategy = "COUNTER"
	Random  Strategy = "RANDOM"
	// Custom is a code that the caller chooses.
	Custom Strategy = "CUSTOM"
)

// IsIdempotent reports whether creating the same link again returns the existing one.
func (s Strategy) IsIdempotent() bool { return s == Deterministic || s == Custom }

// Kind is the intended lifetime of a link.
type Kind string

// The kinds.
const (
	// Temporary links have no owner and expire after some hours unless they are claimed.
	Temporary Kind = "TEMPORARY"
	// Permanent links belong to a workspace.
	Permanent Kind = "PERMANENT"
)

// Link is a short link.
type Link struct {
	bun.BaseModel `bun:"table:links"`

	ID          string `bun:",pk"`
	WorkspaceID string
	// Code is the last segment of the short URL; of a link with OwnAddress, see SetOwnCode.
	// RootCode is equal if the code works at the root, where it is unique over the instance, and
	// nil otherwise.
	Code     string
	RootCode *string
	// DomainID is the domain that has the code, and OwnAddress its host, a slash and the code as it
	// was given; nil for a code of the workspace. A deleted link keeps its OwnAddress when the
	// domain is removed.
	DomainID   *string
	OwnAddress *string
	// CodeKey is shortcode.Key of a custom code in a workspace whose custom codes do not depend on
	// case; nil otherwise. A link that was deleted before the workspace changed may have none,
	// because another one has it.
	CodeKey  *string
	Strategy Strategy
	// Values has the tags if they are loaded, or replace those of the link when it is written.
	linkfield.Values
	// CanonicalURL is the canonical form of OriginalURL.
	CanonicalURL  string
	CanonicalHash []byte
	// CreatedBy is the account that created or claimed the link.
	CreatedBy *string
	CreatedAt time.Time
	UpdatedAt time.Time
	// DeletedAt is when a member deleted the link, DisabledAt when the operator disabled it.
	DeletedAt  *time.Time
	DisabledAt *time.Time
	// EndedAt is when the tombstone began: when the link was deleted or expired. RecordTransitions
	// sets it for expired links, to the present if that was long ago. PurgedAt is when the link was
	// scrubbed.
	EndedAt  *time.Time
	PurgedAt *time.Time
	// StartedAt and ExpiredAt are when the transitions that have been recorded took effect.
	StartedAt, ExpiredAt *time.Time
	// ClaimHash is the SHA-256 of an anonymous link's claim token.
	ClaimHash []byte
	// Check is that of the destination.
	Check
	// Version is the number of the newest version, from 1. VersionCause and VersionActor are how it
	// came about, and who made it; empty for the server and the operator. VersionOperation is the
	// bulk call that it was part of, if any; of a version that undid one, it is that one.
	Version          int
	VersionCause     Cause
	VersionActor     string
	VersionOperation *string
	// VersionStartsAt is when the newest version took effect; nil means at UpdatedAt.
	VersionStartsAt *time.Time
	// NextChangeAt is when the soonest scheduled change is due; nil if there is none.
	NextChangeAt *time.Time

	// Granted is how many redirects count towards MaxClicks, see LoadGranted. Without MaxClicks
	// those are the clicks, if they are loaded, see Edits.NeedClicks: a MaxClicks that is set
	// counts on from them.
	Granted int64 `bun:"-"`
	// In is the membership through which the link was loaded.
	In workspace.Membership `bun:"-"`
	// pending are the scheduled changes, soonest first; nil unless they were loaded.
	pending []*ScheduledChange
	// due are the states that have begun and are not written yet, and stored is the link as it is
	// written; nil if it is the same. See Complete.
	due    []dueState
	stored *Link
}

func (*Link) IsEntity() {} // an entity of Apollo Federation

// Kind returns Temporary for anonymous links.
func (l *Link) Kind() Kind {
	if l.WorkspaceID == id.PublicWorkspace {
		return Temporary
	}
	return Permanent
}

// SetOwnCode gives a new link a code of a domain, which shortcode.ValidateOwn has returned.
func (l *Link) SetOwnCode(d *domain.Domain, code string) {
	key, _ := shortcode.OwnKey(code, d.CaseSensitive)
	l.Code, l.DomainID, l.OwnAddress = d.ID+"/"+key, &d.ID, new(d.Host+"/"+code)
}

// ShownCode returns the code as it was given or generated.
func (l *Link) ShownCode() string {
	if l.OwnAddress == nil {
		return l.Code
	}
	_, code, _ := strings.Cut(*l.OwnAddress, "/")
	return code
}

// RedirectsTo reports whether the link redirects to exactly the URL, in the caller's spelling.
func (l *Link) RedirectsTo(url string) bool {
	return urlnorm.Location(l.OriginalURL) == urlnorm.Location(url)
}

// IsHidden reports whether the short URL responds as if the link did not exist.
func (l *Link) IsHidden(now time.Time) bool {
	p := routing.Program{Lifecycle: l.Lifecycle()}
	p.Exhausted = false // a limit hides nothing
	return routing.Decide(&p, &routing.Request{Now: now}).Page == routing.PageNotFound
}

// Lifecycle returns the facts that determine the link's state.
func (l *Link) Lifecycle() routing.Lifecycle {
	c := routing.NewLifecycle(l.StartsAt, l.ExpiresAt)
	c.Disabled, c.Deleted = l.DisabledAt != nil, l.DeletedAt != nil
	c.Exhausted = l.MaxClicks != nil && l.Granted >= *l.MaxClicks
	return c
}

// Status returns the state of the link at an instant.
func (l *Link) Status(now time.Time) routing.Status {
	c := l.Lifecycle()
	return c.Status(now)
}

// HashClaim returns the stored hash of a claim token, which is random enough to need no salt.
func HashClaim(token string) []byte {
	hash := sha256.Sum256([]byte(token))
	return hash[:]
}
