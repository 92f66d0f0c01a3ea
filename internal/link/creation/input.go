package creation

import (
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Input is the input for creating a link.
type Input struct {
	// URL is the destination in the caller's spelling.
	URL string
	// Strategy may be nil: then it is Custom if there is a CustomCode, Random if there is a
	// DomainID, or else the workspace's default.
	Strategy *link.Strategy
	// CustomCode is the code of a Custom link.
	CustomCode *string
	// DomainID is a domain with codes of its own that gets the code; nil means the workspace.
	DomainID *string `json:",omitempty"`
	Title    *string
	Note     *string
	Tags     []string
	// FolderID is the folder of the link; nil means none.
	FolderID *string `json:",omitempty"`
	// RedirectStatus is 301, 302, 307 or 308; nil means the workspace's default.
	RedirectStatus *int
	StartsAt       *time.Time
	ExpiresAt      *time.Time
	// MaxClicks is the limit of redirects; nil means no limit.
	MaxClicks *int64
	// ExternalID is the caller's own id; nil means none.
	ExternalID *string
	// Metadata is the caller's own data, in any order.
	Metadata []*linkfield.Pair
	// Routing is how the link answers visitors otherwise; absent fields have the workspace's
	// defaults.
	Routing *routing.Change
	// Archived and StatsPublic are false if nil. Without them, the input of an idempotency key is
	// as it was before them.
	Archived    *bool `json:",omitempty"`
	StatsPublic *bool `json:",omitempty"`

	// ClaimHash is that of an anonymous link.
	ClaimHash []byte `json:"-"`
}

// size returns about how many bytes the row of the link will have.
func (in *Input) size() int {
	size := 2*len(in.URL) + len(optional.Value(in.Title)) + len(optional.Value(in.Note)) + 512
	for _, p := range in.Metadata {
		size += len(p.Key) + len(p.Value)
	}
	if in.Routing != nil {
		size += check.MaxStored
	}
	return size
}

// draft validates the input and returns a link without a code. The tests of its routing run once it
// has one. It returns InvalidInput or InvalidURL.
func (in *Input) draft(m workspace.Membership, now time.Time, isImported bool) (*link.Link, error) {
	l := &link.Link{
		In: m, WorkspaceID: m.ID(), Strategy: in.strategy(m), ClaimHash: in.ClaimHash,
		CreatedBy: optional.Of(m.AccountID()), CreatedAt: now, Check: link.Check{CheckAt: &now},
		Version: 1, VersionCause: link.CauseCreated, VersionActor: m.ActorID(),
	}
	if isImported {
		l.VersionCause = link.CauseImported
	}
	l.RedirectStatus = m.Workspace().DefaultRedirectStatus
	l.Tags = []string{}
	l.Routing = m.Workspace().RoutingDefaults
	if err := l.SetDestination(in.URL); err != nil {
		return nil, err
	}
	fields := in.fields()
	fields.KeepsPast = isImported
	if err := l.SetFields(&fields, now); err != nil {
		return nil, err
	}
	if in.Routing == nil {
		return l, nil
	}
	return l, l.ChangeRouting(in.Routing)
}

// fields returns the given fields, except the URL and the routing.
func (in *Input) fields() linkfield.Change {
	return linkfield.Change{
		Title: given(in.Title), Note: given(in.Note), FolderID: given(in.FolderID), ExternalID: given(in.ExternalID),
		StartsAt: given(in.StartsAt), ExpiresAt: given(in.ExpiresAt), MaxClicks: given(in.MaxClicks),
		Tags:           optional.Edit[[]string]{Set: in.Tags != nil, To: in.Tags},
		Metadata:       optional.Edit[[]*linkfield.Pair]{Set: in.Metadata != nil, To: in.Metadata},
		RedirectStatus: givenValue(in.RedirectStatus), Archived: givenValue(in.Archived),
		StatsPublic: givenValue(in.StatsPublic),
	}
}

func given[T any](value *T) optional.Edit[*T] { return optional.Edit[*T]{Set: value != nil, To: value} }

func givenValue[T any](value *T) optional.Edit[T] {
	return optional.Edit[T]{Set: value != nil, To: optional.Value(value)}
}

func (in *Input) strategy(m workspace.Membership) link.Strategy {
	switch {
	case in.Strategy != nil:
		return *in.Strategy
	case in.CustomCode != nil:
		return link.Custom
	case in.DomainID != nil:
		return link.Random
	}
	return link.Strategy(m.Workspace().DefaultStrategy)
}
