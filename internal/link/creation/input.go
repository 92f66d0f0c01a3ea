package creation

import (
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Input is the input for creating a link, or for changing the one with its external id: an upsert.
type Input struct {
	// URL is the destination in the caller's spelling.
	URL string
	// Strategy may be nil: then it is Custom if there is a CustomCode, Random if there is a
	// DomainID, or else the workspace's default; in an upsert it is Custom or Random. The existing
	// link of an upsert must have the Strategy, CustomCode and DomainID that are given.
	Strategy *link.Strategy
	// CustomCode is the code of a Custom link.
	CustomCode *string
	// DomainID is a domain with codes of its own that gets the code; nil means the workspace.
	DomainID *string `json:",omitempty"`
	// Fields are all other fields. Unset ones have the workspace's defaults, and those of an existing
	// link stay. ID, URL and Seen are not used.
	Fields linkfield.Change

	// ClaimHash is that of an anonymous link.
	ClaimHash []byte `json:"-"`
}

// size returns about how many bytes the row of the link will have.
func (in *Input) size() int {
	size := 2*len(in.URL) + len(optional.Value(in.Fields.Title.To)) + len(optional.Value(in.Fields.Note.To)) + 512
	for _, p := range in.Fields.Metadata.To {
		size += len(p.Key) + len(p.Value)
	}
	if in.Fields.Routing.To != nil {
		size += check.MaxStored
	}
	return size
}

// newDraft validates the input and returns a link without a code. The tests of its routing run once
// it has one. It returns InvalidInput or InvalidURL.
func (p *proposal) newDraft(m workspace.Membership, now time.Time) (*link.Link, error) {
	in := p.in
	l := &link.Link{
		In: m, WorkspaceID: m.ID(), Strategy: p.strategy(m), ClaimHash: in.ClaimHash,
		CreatedBy: optional.Of(m.AccountID()), CreatedAt: now, Check: link.Check{CheckAt: &now},
		Version: 1, VersionCause: link.CauseCreated, VersionActor: m.ActorID(),
	}
	if p.kind == imports {
		l.VersionCause = link.CauseImported
	}
	l.RedirectStatus = m.Workspace().DefaultRedirectStatus
	l.Tags = []string{}
	l.Routing = m.Workspace().RoutingDefaults
	fields := in.Fields
	fields.KeepsPast = p.kind == imports
	return l, errs.All(l.SetDestination(in.URL), l.SetFields(&fields, now))
}

// externalID returns the external id that the link gets; empty for none.
func (in *Input) externalID() string { return optional.Value(in.Fields.ExternalID.To) }

func (p *proposal) strategy(m workspace.Membership) link.Strategy {
	switch {
	case p.in.Strategy != nil:
		return *p.in.Strategy
	case p.in.CustomCode != nil:
		return link.Custom
	case p.kind == upserts || p.in.DomainID != nil:
		return link.Random
	}
	return link.Strategy(m.Workspace().DefaultStrategy)
}
