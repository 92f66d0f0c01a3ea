package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/linkfield"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// Existing is a link as the API returns it.
type Existing struct {
	ID             string            `json:"id"`
	Code           string            `json:"code"`
	Strategy       string            `json:"strategy"`
	OriginalURL    string            `json:"originalUrl"`
	Title          *string           `json:"title"`
	Note           *string           `json:"note"`
	Tags           []string          `json:"tags"`
	Folder         *reference        `json:"folder"`
	Domain         *reference        `json:"domain"`
	ExternalID     *string           `json:"externalId"`
	StartsAt       *time.Time        `json:"startsAt"`
	ExpiresAt      *time.Time        `json:"expiresAt"`
	DeletedAt      *time.Time        `json:"deletedAt"`
	UpdatedAt      time.Time         `json:"updatedAt"`
	MaxClicks      *int64            `json:"maxClicks"`
	RedirectStatus int               `json:"redirectStatus"`
	Archived       bool              `json:"archived"`
	StatsPublic    bool              `json:"statsPublic"`
	Metadata       []*linkfield.Pair `json:"metadata"`
	Routing        *Routing          `json:"routing"`
}

// reference is an object that a link refers to.
type reference struct{ ID string }

// Selection selects the fields of an Existing without its routing, and RoutingSelection the routing. They are apart because the server charges
// every link for the largest routing.
const (
	Selection = ` id code strategy originalUrl title note tags folder { id } domain { id } externalId startsAt expiresAt deletedAt updatedAt
		maxClicks redirectStatus archived statsPublic metadata { key value } `
	RoutingSelection = ` routing {
		rules { name enabled when { ...C } unless { ...C } targets { name url share maxClicks } stickiness }
		query { mode only except } forwardPath utm { source medium campaign term content } pendingUrl endedUrl
		card { title description imageUrl imageAlt } gate { hasPassword notice confirm } bots qrSources
		tests { name status location visit { at country userAgent acceptLanguage referrer query path address visit targetId private gatePassed } } } `
	// RoutingFragments are the fragments of RoutingSelection.
	RoutingFragments = ` fragment C on VisitCondition { country device os browser language referrer query { name value } during { from to }
		weekly { timezone days from to } network visit bot }`
)

// Settings are the settings of the workspace that the comparison depends on.
type Settings struct {
	// DefaultRedirectStatus is the status of links without one.
	DefaultRedirectStatus int
	// CaseSensitiveCodes is whether case matters in the codes of the workspace, CaseSensitiveDomains in those of domains, by their ids.
	CaseSensitiveCodes   bool
	CaseSensitiveDomains map[string]bool
}

// Action is what becomes of a link.
type Action string

// The actions.
const (
	Create Action = "CREATE"
	Update Action = "UPDATE"
	// Replace deletes the link, whose code or strategy cannot change, and creates another one.
	Replace Action = "REPLACE"
	Delete  Action = "DELETE"
)

// Change is a planned change of a link.
type Change struct {
	Action     Action `json:"action"`
	ExternalID string `json:"externalId"`
	// ID is that of the existing link; empty for a new one.
	ID          string       `json:"id,omitempty"`
	Differences []Difference `json:"differences,omitempty"`
	// LastChange is the newest version of the existing link, if the caller has read it.
	LastChange *LastChange `json:"lastChange,omitempty"`

	// Input are all fields for upsertLinks; nil for a deletion.
	Input map[string]any `json:"-"`
	// takenID is the id of an existing link of the owner that gets the external id, which an upsert would not find; empty for none.
	// keepsURL is whether its URL is that of its code.
	owner, takenID string
	keepsURL       bool
	// seen are the versions of the existing links that were compared, by id: the changes by updateLinks are for these only.
	seen map[string]time.Time
}

// Release returns the input of updateLinks that removes the external id of a replaced link. The metadata marks the link until it is deleted.
func (c *Change) Release() map[string]any {
	marks := []linkfield.Pair{{Key: ownerKey, Value: c.owner}, {Key: replacedKey, Value: strings.TrimPrefix(c.ExternalID, c.owner+"/")}}
	return map[string]any{"id": c.ID, "updatedAt": c.seen[c.ID], "externalId": nil, "metadata": marks}
}

// Rename returns the input of updateLinks that gives the external id to another link of the owner, before the upsert; nil for none.
func (c *Change) Rename() map[string]any {
	if c.takenID == "" {
		return nil
	}
	in := maps.Clone(c.Input)
	in["id"], in["updatedAt"] = c.takenID, c.seen[c.takenID]
	maps.DeleteFunc(in, func(name string, _ any) bool {
		return name == "strategy" || name == "customCode" || name == "domainId" || name == "url" && c.keepsURL
	})
	return in
}

// Difference is a field with its present and its wanted value, as JSON.
type Difference struct {
	Field string          `json:"field"`
	From  json.RawMessage `json:"from"`
	To    json.RawMessage `json:"to"`
}

// LastChange is when a link was last changed, and by whom.
type LastChange struct {
	At time.Time `json:"at"`
	// By is the name of a user or the id of an API key; empty for the server, and if the caller may not know.
	By string `json:"by,omitempty"`
}

// Plan is the difference between a file and the links that exist.
type Plan struct {
	Changes   []*Change `json:"changes"`
	Unchanged int       `json:"unchanged"`
	// Unlisted is how many further links of the owner are not in the file.
	Unlisted int `json:"unlisted"`
}

// Count returns the number of changes of a kind.
func (p *Plan) Count(a Action) (n int) {
	for _, c := range p.Changes {
		if c.Action == a {
			n++
		}
	}
	return n
}

// NewPlan compares the links of a file with existing links in any state: those with the owner in their metadata, and those with an external
// id or a code of the file. With prune, it deletes links of the owner that are not in the file. It returns an error if a link of the file
// has a password that apply cannot set, or a code that belongs to another link.
func NewPlan(f *File, existing []*Existing, s Settings, prune bool) (*Plan, error) {
	p := &planner{
		File: f, Settings: s, byID: map[string]*Existing{}, marked: map[string]*Existing{}, byCode: map[string]*Existing{}, listed: map[string]bool{},
		used: map[string]bool{},
	}
	for _, e := range existing {
		if mark := e.pair(replacedKey); mark != "" && e.ExternalID == nil {
			p.marked[f.Owner+"/"+mark] = e
		}
		p.byID[optional.Value(e.ExternalID)] = e
		p.byCode[s.identity(e.link())] = e
	}
	delete(p.byID, "")
	for _, externalID := range f.ExternalIDs() {
		p.listed[externalID] = true
	}
	plan, failed, seen := &Plan{Changes: []*Change{}}, []error{}, map[string]string{}
	for _, l := range f.Links {
		identity := s.identity(l)
		if other := seen[identity]; identity != "" && other != "" {
			failed = append(failed, fmt.Errorf("%q and %q have the same code", other, l.Key))
		}
		seen[identity] = l.Key
		c, err := p.change(l)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("%q: %w", l.Key, err))
		case c == nil:
			plan.Unchanged++
		default:
			plan.Changes = append(plan.Changes, c)
		}
	}
	for _, e := range existing {
		isLeft := e.ExternalID == nil && e.pair(replacedKey) != ""
		isOurs := strings.HasPrefix(optional.Value(e.ExternalID), f.Owner+"/") && !p.listed[optional.Value(e.ExternalID)]
		switch {
		case p.used[e.ID] || e.DeletedAt != nil || !isLeft && !isOurs:
		case prune || isLeft && p.listed[f.Owner+"/"+e.pair(replacedKey)]: // its replacement exists, or will
			plan.Changes = append(plan.Changes, &Change{Action: Delete, ExternalID: cmp.Or(optional.Value(e.ExternalID), f.Owner+"/"+e.pair(replacedKey)), ID: e.ID})
		default:
			plan.Unlisted++
		}
	}
	slices.SortStableFunc(plan.Changes, func(a, b *Change) int { return cmp.Compare(a.ExternalID, b.ExternalID) })
	return plan, errors.Join(failed...)
}

// planner has the existing links by external id, by the one that they had before their replacement began, and by code, the external ids
// of the file, and the ids of links that are already assigned to a link of the file.
type planner struct {
	*File
	Settings
	byID, marked, byCode map[string]*Existing
	listed, used         map[string]bool
}

// change returns the change of one link; nil for none.
func (p *planner) change(l *Link) (*Change, error) {
	externalID := l.externalID(p.Owner)
	wanted := *l
	wanted.RedirectStatus = new(optional.Or(l.RedirectStatus, p.DefaultRedirectStatus))
	c := &Change{Action: Update, ExternalID: externalID, Input: wanted.input(), owner: p.Owner, keepsURL: l.Strategy == deterministic, seen: map[string]time.Time{}}
	c.Input["externalId"] = externalID
	replaced := p.byID[externalID]
	e, before := p.marked[externalID], (&Existing{}).link()
	if replaced == nil && p.hasCode(e, l) { // its replacement was undone, or did not go on
		c.takenID = e.ID
	} else if e = replaced; p.hasCode(e, l) {
		replaced = nil
	} else if err := p.takeOver(l, &e); err != nil {
		return nil, err
	}
	for _, one := range []*Existing{e, replaced} {
		if one != nil {
			p.used[one.ID], c.seen[one.ID], c.ID, before = true, one.UpdatedAt, one.ID, one.link()
		}
	}
	switch {
	case l.hasPassword() && (e == nil || !e.link().hasPassword()):
		return nil, errors.New("routing.gate.hasPassword demands a password, which a file cannot hold: give the link one with upsertLink first")
	case replaced != nil && before.hasPassword():
		return nil, errors.New("the link has a password, which a replacement would not have: remove it first")
	case replaced != nil:
		c.Action = Replace
	case e == nil:
		c.Action = Create
	}
	c.Differences = p.differences(before, &wanted)
	if e != nil && e.ExternalID != nil && *e.ExternalID != externalID {
		c.takenID = e.ID
	}
	if e == nil || replaced != nil {
		return c, nil
	}
	if e.DeletedAt != nil {
		c.Differences = append(c.Differences, Difference{"deleted", json.RawMessage("true"), json.RawMessage("false")})
	}
	if !optional.Equal(e.ExternalID, &externalID) {
		c.Differences = append(c.Differences, Difference{"externalId", encode(e.ExternalID), encode(externalID)})
	}
	if len(c.Differences) == 0 {
		return nil, nil
	}
	return c, nil
}

// hasCode reports whether an existing link, which may be nil, has the strategy and the code of a link.
func (p *planner) hasCode(e *Existing, l *Link) bool {
	return e != nil && l.Strategy == e.Strategy && optional.Equal(l.DomainID, e.link().DomainID) && p.identity(l) == p.identity(e.link())
}

// takeOver sets the link that has the code of another one, and is not wanted under another external id; nil if there is none.
func (p *planner) takeOver(l *Link, e **Existing) error {
	found := p.byCode[p.identity(l)]
	*e = nil
	switch {
	case found == nil || p.identity(l) == "" || p.used[found.ID] || p.listed[optional.Value(found.ExternalID)]:
		return nil
	case found.ExternalID != nil && !strings.HasPrefix(*found.ExternalID, p.Owner+"/"):
		return fmt.Errorf("the link with this code has the external id %q", *found.ExternalID)
	}
	*e = found
	return nil
}

// identity is equal in links that cannot both exist: of a custom code or the URL of a deterministic one; empty for others.
func (s Settings) identity(l *Link) string {
	switch {
	case l.Strategy == deterministic:
		canonical, _ := urlnorm.Canonical(l.URL)
		return canonical.String()
	case l.Strategy != custom:
		return ""
	case l.DomainID != nil:
		key, _ := shortcode.OwnKey(*l.CustomCode, s.CaseSensitiveDomains[*l.DomainID])
		return *l.DomainID + "/" + key
	case s.CaseSensitiveCodes:
		return "/" + *l.CustomCode
	default:
		return "/" + shortcode.Key(*l.CustomCode)
	}
}

// link returns the link as a file describes it, with the owner in its metadata.
func (e *Existing) link() *Link {
	l := &Link{
		URL: e.OriginalURL, Strategy: e.Strategy, Title: e.Title, Note: e.Note, Tags: e.Tags, StartsAt: instant(e.StartsAt), ExpiresAt: instant(e.ExpiresAt),
		MaxClicks: e.MaxClicks, RedirectStatus: optional.Of(e.RedirectStatus), Archived: e.Archived, StatsPublic: e.StatsPublic,
		Metadata: e.Metadata, Routing: e.Routing,
	}
	if e.Strategy == custom {
		l.CustomCode = &e.Code
	}
	if e.Folder != nil {
		l.FolderID = &e.Folder.ID
	}
	if e.Domain != nil {
		l.DomainID = &e.Domain.ID
	}
	_ = l.normalizeRouting() // or it stays as it is: the rules for routings may have become stricter
	return l
}

// pair returns a value of the metadata.
func (e *Existing) pair(key string) string {
	for _, p := range e.Metadata {
		if p.Key == key {
			return p.Value
		}
	}
	return ""
}

// differences returns the fields that differ, without the spelling of a code that is the same.
func (s Settings) differences(before, after *Link) (all []Difference) {
	from, to := before.fields(), after.fields()
	for i := range from {
		isSpelling := from[i].name == "code" && s.identity(before) == s.identity(after)
		if !bytes.Equal(from[i].value, to[i].value) && !isSpelling {
			all = append(all, Difference{from[i].name, from[i].value, to[i].value})
		}
	}
	return all
}
