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

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// Existing is a link as the API returns it.
type Existing struct {
	ID        string     `json:"id"`
	Code      string     `json:"code"`
	Strategy  string     `json:"strategy"`
	Folder    *reference `json:"folder"`
	Domain    *reference `json:"domain"`
	DeletedAt *time.Time `json:"deletedAt"`
	UpdatedAt time.Time  `json:"updatedAt"`
	linkfield.Values
	ExternalID string            `json:"externalId"` // empty for none
	Metadata   []*linkfield.Pair `json:"metadata"`
	Routing    *Routing          `json:"routing"`
}

// reference is an object that a link refers to.
type reference struct{ ID string }

// Selection selects the fields of an Existing without its routing, and RoutingSelection the
// routing. They are apart because the server charges every link for the largest routing.
var Selection = ` id code strategy folder { id } domain { id } deletedAt updatedAt ` + selected()

const (
	RoutingSelection = ` routing {
		rules { name enabled when { ...C } unless { ...C } targets { name url share maxClicks } stickiness }
		query { mode only except } forwardPath utm { source medium campaign term content } pendingUrl endedUrl
		card { title description imageUrl imageAlt } gate { hasPassword notice confirm } bots qrSources
		tests { name status location visit { at country userAgent acceptLanguage referrer query path address
			targetId private gatePassed } } } `
	// RoutingFragments are the fragments of RoutingSelection.
	RoutingFragments = ` fragment C on VisitCondition { country device os browser language referrer query { name value }
		during { from to }
		weekly { timezone days from to } network bot }`
)

// selected selects the values of a link.
func selected() (fields string) {
	written := map[string]string{
		"url": "url: originalUrl", "metadata": "metadata { key value }", "folderId": "", "routing": "",
	}
	for _, f := range linkfield.Fields {
		text, ok := written[f.Name]
		if !ok {
			text = f.Name
		}
		fields += text + " "
	}
	return fields
}

// Settings are the settings of the workspace that the comparison depends on.
type Settings struct {
	// DefaultRedirectStatus is the status of links without one.
	DefaultRedirectStatus int
	// CaseSensitiveCodes is whether case matters in the codes of the workspace,
	// CaseSensitiveDomains in those of domains, by their ids.
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

	// Input are all fields for upsertLinks; nil for a deletion. Before are inputs of updateLinks
	// that precede it, for the versions of links that were compared: they take the external id from
	// a link that is replaced, and give it to one that the upsert would not find.
	Input  map[string]any   `json:"-"`
	Before []map[string]any `json:"-"`
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
	// By is the name of a user or the id of an API key; empty for the server, and if the caller may
	// not know.
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

// NewPlan compares the links of a file with existing links in any state: those with the owner in
// their metadata, and those with an external id or a code of the file. With prune, it deletes links
// of the owner that are not in the file. It returns an error if a link of the file has a password
// that apply cannot set, or a code that belongs to another link.
func NewPlan(f *File, existing []*Existing, s Settings, prune bool) (*Plan, error) {
	p := &planner{
		File: f, Settings: s, byID: map[string]*Existing{}, replaced: map[string]*Existing{},
		byCode: map[string]*Existing{}, listed: map[string]bool{},
		used: map[string]bool{},
	}
	for _, e := range existing {
		if e.ExternalID == "" {
			p.replaced[e.formerID(f.Owner)] = e
		} else {
			p.byID[e.ExternalID] = e
		}
		p.byCode[s.identity(e.link())] = e
	}
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
		externalID := e.formerID(f.Owner)
		switch {
		case p.used[e.ID] || e.DeletedAt != nil || externalID == "":
		case prune || p.listed[externalID]: // the link that replaces it exists, or will
			plan.Changes = append(plan.Changes, &Change{Action: Delete, ExternalID: externalID, ID: e.ID})
		default:
			plan.Unlisted++
		}
	}
	slices.SortStableFunc(plan.Changes, func(a, b *Change) int { return cmp.Compare(a.ExternalID, b.ExternalID) })
	return plan, errors.Join(failed...)
}

// planner has the existing links by external id, by the one that was taken from them, and by code,
// the external ids of the file, and the ids of links that are already assigned to a link of the
// file.
type planner struct {
	*File
	Settings
	byID, replaced, byCode map[string]*Existing
	listed, used           map[string]bool
}

// change returns the change of one link; nil for none.
func (p *planner) change(l *Link) (*Change, error) {
	e, replaced, err := p.match(l)
	if err != nil {
		return nil, err
	}
	wanted := *l
	wanted.RedirectStatus = cmp.Or(l.RedirectStatus, p.DefaultRedirectStatus)
	c := &Change{Action: Create, ExternalID: l.externalID(p.Owner), Input: wanted.input()}
	c.Input["externalId"] = c.ExternalID
	before := (&Existing{}).link()
	for _, one := range []*Existing{e, replaced} {
		if one != nil {
			p.used[one.ID], c.ID, before = true, one.ID, one.link()
		}
	}
	switch {
	case l.hasPassword() && (e == nil || !e.link().hasPassword()):
		return nil, errors.New("routing.gate.hasPassword demands a password, which a file cannot hold: give the link " +
			"one with upsertLink first")
	case replaced != nil && before.hasPassword():
		return nil, errors.New("the link has a password, which a replacement would not have: remove it first")
	case replaced != nil:
		c.Action = Replace
		c.Before = append(c.Before, p.release(replaced, l))
	case e != nil:
		c.Action = Update
	}
	c.Differences = p.differences(before, &wanted)
	if e != nil && e.ExternalID != c.ExternalID && e.formerID(p.Owner) != "" {
		c.Before = append(c.Before, rename(c.Input, e, l))
	}
	if c.Action != Update {
		return c, nil
	}
	if e.DeletedAt != nil {
		c.Differences = append(c.Differences, Difference{"deleted", json.RawMessage("true"), json.RawMessage("false")})
	}
	if e.ExternalID != c.ExternalID {
		c.Differences = append(c.Differences, Difference{"externalId", encode(e.ExternalID), encode(c.ExternalID)})
	}
	if len(c.Differences) == 0 {
		return nil, nil
	}
	return c, nil
}

// match returns the existing link that becomes a link of the file, and the one with its external
// id that it replaces; nil for none. It returns an error if the code belongs to a link of another
// owner.
func (p *planner) match(l *Link) (e, replaced *Existing, err error) {
	externalID, identity := l.externalID(p.Owner), p.identity(l)
	e = p.byID[externalID]
	if e == nil && p.hasCode(p.replaced[externalID], l) { // its replacement was undone, or did not continue
		e = p.replaced[externalID]
	}
	if p.hasCode(e, l) {
		return e, nil, nil
	}
	found := p.byCode[identity]
	switch {
	case found == nil || identity == "" || p.used[found.ID] || p.listed[found.ExternalID]:
		return nil, e, nil
	case found.ExternalID != "" && !strings.HasPrefix(found.ExternalID, p.Owner+"/"):
		return nil, nil, fmt.Errorf("the link with this code has the external id %q", found.ExternalID)
	}
	return found, e, nil
}

// release returns the input that takes the external id from a link that is replaced. The metadata
// marks it until it is deleted.
func (p *planner) release(e *Existing, l *Link) map[string]any {
	marks := []linkfield.Pair{{Key: ownerKey, Value: p.Owner}, {Key: replacedKey, Value: l.Key}}
	return map[string]any{"id": e.ID, "updatedAt": e.UpdatedAt, "externalId": nil, "metadata": marks}
}

// rename returns the input that gives a link the external id and the other fields of an upsert. The
// URL of a deterministic code stays.
func rename(upsert map[string]any, e *Existing, l *Link) map[string]any {
	in := maps.Clone(upsert)
	in["id"], in["updatedAt"] = e.ID, e.UpdatedAt
	maps.DeleteFunc(in, func(name string, _ any) bool {
		return name == "strategy" || name == "customCode" || name == "domainId" ||
			name == "url" && l.Strategy == deterministic
	})
	return in
}

// hasCode reports whether an existing link, which may be nil, has the strategy and the code of a
// link.
func (p *planner) hasCode(e *Existing, l *Link) bool {
	return e != nil && l.Strategy == e.Strategy && optional.Equal(l.DomainID, e.link().DomainID) &&
		p.identity(l) == p.identity(e.link())
}

// identity is equal in links that cannot both exist: of a custom code or the URL of a deterministic
// one; empty for others.
func (s Settings) identity(l *Link) string {
	switch {
	case l.Strategy == deterministic:
		canonical, _ := urlnorm.Canonical(l.OriginalURL)
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
	l := &Link{Strategy: e.Strategy, Values: e.Values, Metadata: e.Metadata, Routing: e.Routing}
	l.StartsAt, l.ExpiresAt = instant(e.StartsAt), instant(e.ExpiresAt)
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

// formerID returns the external id of a link of an owner, or the one that was taken from it because
// it is replaced; empty for others.
func (e *Existing) formerID(owner string) string {
	if strings.HasPrefix(e.ExternalID, owner+"/") {
		return e.ExternalID
	}
	isMarked := slices.ContainsFunc(e.Metadata, func(p *linkfield.Pair) bool {
		return *p == linkfield.Pair{Key: ownerKey, Value: owner}
	})
	i := slices.IndexFunc(e.Metadata, func(p *linkfield.Pair) bool { return p.Key == replacedKey && p.Value != "" })
	if e.ExternalID != "" || !isMarked || i < 0 {
		return ""
	}
	return owner + "/" + e.Metadata[i].Value
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
