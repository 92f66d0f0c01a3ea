package link

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/routing/check"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/validate"
	"github.com/linkforge/linkforge/internal/workspace"
)

// New is the input for creating a link.
type New struct {
	// URL is the destination in the caller's spelling.
	URL string
	// Strategy may be nil: then it is Custom if there is a CustomCode, or else the workspace's
	// default.
	Strategy *Strategy
	// CustomCode is the code of a Custom link.
	CustomCode *string
	Title      *string
	Note       *string
	Tags       []string
	// RedirectStatus is 301, 302, 307 or 308; nil means the workspace's default.
	RedirectStatus *int
	StartsAt       *time.Time
	ExpiresAt      *time.Time
	// MaxClicks is the limit of redirects; nil means no limit.
	MaxClicks *int64
	// ExternalID is the caller's own id; nil means none.
	ExternalID *string
	// Metadata is the caller's own data, in any order.
	Metadata []*Pair
	// Routing is how the link answers visitors otherwise; absent fields have the workspace's defaults.
	Routing *routing.Change
	// Archived and StatsPublic are false if nil. Without them, the input of an idempotency key is as it was before them.
	Archived    *bool `json:",omitempty"`
	StatsPublic *bool `json:",omitempty"`

	// ClaimHash is that of an anonymous link.
	ClaimHash []byte `json:"-"`
}

// Size returns about how many bytes the row of the link will have.
func (in *New) Size() int {
	size := 2*len(in.URL) + len(optional.Value(in.Title)) + len(optional.Value(in.Note)) + 512
	for _, p := range in.Metadata {
		size += len(p.Key) + len(p.Value)
	}
	if in.Routing != nil {
		size += check.MaxStored
	}
	return size
}

const (
	// maxTitle, maxNote and maxTag are lengths in characters, maxTags is a number of tags.
	maxTitle = 200
	maxNote  = 2000
	maxTags  = 20
	maxTag   = 50
)

// Draft validates the input and returns a link without a code. It returns InvalidInput or
// InvalidURL.
func Draft(m workspace.Membership, in New, now time.Time) (*Link, error) {
	l := &Link{
		In:          m,
		WorkspaceID: m.ID(),
		Strategy:    in.strategy(m),
		Settings:    in.settings(m),
		StatsPublic: optional.Value(in.StatsPublic),
		ClaimHash:   in.ClaimHash,
		CreatedAt:   now,
		UpdatedAt:   now,
		Check:       Check{CheckAt: &now},
		CreatedBy:   optional.Of(m.AccountID()),
		Version:     1, VersionCause: CauseCreated, VersionActor: m.ActorID(),
	}
	if optional.Value(in.Archived) {
		l.ArchivedAt = &now
	}
	err := l.setDestination(in.URL)
	if err != nil {
		return nil, err
	}
	if l.Title, err = checkTitle(in.Title); err != nil {
		return nil, err
	}
	if l.Note, err = checkNote(in.Note); err != nil {
		return nil, err
	}
	if l.NewTags, err = CheckTags(in.Tags); err != nil {
		return nil, err
	}
	if l.ExternalID, err = checkExternalID(in.ExternalID); err != nil {
		return nil, err
	}
	if l.Metadata, err = newMetadata(in.Metadata); err != nil {
		return nil, err
	}
	if err := l.checkExpiry(now); err != nil {
		return nil, err
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	return l, l.setRouting(in.Routing)
}

// HashClaim returns the stored hash of a claim token, which is random enough to need no salt.
func HashClaim(token string) []byte {
	hash := sha256.Sum256([]byte(token))
	return hash[:]
}

// settings returns the settings, with the workspace's defaults in place of absent ones.
func (in New) settings(m workspace.Membership) routing.Settings {
	return routing.Settings{
		RedirectStatus: optional.Or(in.RedirectStatus, m.Workspace().DefaultRedirectStatus),
		StartsAt:       in.StartsAt,
		ExpiresAt:      in.ExpiresAt,
		MaxClicks:      in.MaxClicks,
	}
}

// setDestination sets the URL. Whether the link may redirect there is checked by Store.refused.
func (l *Link) setDestination(raw string) error {
	canonical, err := Canonical(raw)
	if err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(canonical.String()))
	l.OriginalURL = urlnorm.Trim(raw)
	l.CanonicalURL, l.CanonicalHash = canonical.String(), hash[:]
	return nil
}

func (in New) strategy(m workspace.Membership) Strategy {
	switch {
	case in.Strategy != nil:
		return *in.Strategy
	case in.CustomCode != nil:
		return Custom
	}
	return Strategy(m.Workspace().DefaultStrategy)
}

// checkTitle and checkNote return nil for blank text.
func checkTitle(title *string) (*string, error) {
	line, err := validate.Line("The title", optional.Value(title), 0, maxTitle)
	if err != nil {
		return nil, errs.From(err).At("title")
	}
	return optional.Of(line), nil
}

func checkNote(note *string) (*string, error) {
	lines, err := validate.Lines("The note", optional.Value(note), 0, maxNote)
	if err != nil {
		return nil, errs.From(err).At("note")
	}
	return optional.Of(lines), nil
}

// CheckTags validates tags, sorts them and removes duplicates. It never returns nil. It returns
// InvalidInput.
func CheckTags(tags []string) ([]string, error) {
	checked := make([]string, 0, len(tags))
	for _, tag := range tags {
		tag, err := validate.Line("A tag", tag, 1, maxTag)
		if err != nil {
			return nil, errs.From(err).At("tags")
		}
		checked = append(checked, tag)
	}
	slices.Sort(checked)
	checked = slices.Compact(checked)
	if len(checked) > maxTags {
		return nil, errs.New(errs.InvalidInput, "A link can have %d tags; these are %d.", maxTags, len(checked)).At("tags")
	}
	return checked, nil
}

func (l *Link) checkExpiry(now time.Time) error {
	if l.ExpiresAt != nil && !l.ExpiresAt.After(now) {
		return errs.New(errs.InvalidInput, "expiresAt must be in the future.").At("expiresAt")
	}
	return nil
}

// check validates the settings of a link.
func (l *Link) check() error {
	switch l.RedirectStatus {
	case 301, 302, 307, 308:
	default:
		return errs.New(errs.InvalidInput, "redirectStatus must be 301, 302, 307 or 308.").At("redirectStatus")
	}
	if l.MaxClicks != nil && *l.MaxClicks < 1 {
		return errs.New(errs.InvalidInput, "maxClicks must be at least 1.").At("maxClicks")
	}
	if l.StartsAt != nil && l.ExpiresAt != nil && !l.StartsAt.Before(*l.ExpiresAt) {
		return errs.New(errs.InvalidInput, "startsAt must be before expiresAt.").At("startsAt")
	}
	return nil
}
