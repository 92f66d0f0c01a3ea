package manifest

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// The strategies of codes.
const (
	custom        = "CUSTOM"
	deterministic = "DETERMINISTIC"
	random        = "RANDOM"
	counter       = "COUNTER"
)

// Link is a link of a manifest in normal form. Its fields are the key, and those of the API's
// NewLinkInput without externalId, where customCode is code.
type Link struct {
	Key, Strategy        string
	CustomCode, DomainID *string
	// Values have no redirectStatus if the file has none, and no ExternalID.
	linkfield.Values
	// Metadata have the owner, and are in the order of their keys.
	Metadata []*linkfield.Pair
	Routing  *Routing
}

// Routing has the fields of the API's LinkRoutingInput.
type Routing struct {
	Rules       []*routing.Rule     `json:"rules"`
	Query       *routing.Forwarding `json:"query"`
	ForwardPath bool                `json:"forwardPath"`
	UTM         *routing.UTM        `json:"utm"`
	PendingURL  *string             `json:"pendingUrl"`
	EndedURL    *string             `json:"endedUrl"`
	Card        *routing.Card       `json:"card"`
	Gate        *Gate               `json:"gate"`
	Bots        *routing.BotPolicy  `json:"bots"`
	QRSources   []string            `json:"qrSources"`
	Tests       []*routing.Test     `json:"tests"`
}

// Gate has the fields of the API's LinkGate, because a file holds no password: HasPassword demands
// that the link has one.
type Gate struct {
	HasPassword bool    `json:"hasPassword,omitempty"`
	Notice      *string `json:"notice"`
	Confirm     bool    `json:"confirm"`
}

func (l *Link) externalID(owner string) string { return owner + "/" + l.Key }

func (l *Link) hasPassword() bool {
	return l.Routing != nil && l.Routing.Gate != nil && l.Routing.Gate.HasPassword
}

// set gives the link the values of a change as the server stores them. It returns InvalidInput or
// InvalidURL with the position of the value.
func (l *Link) set(owner string, c *linkfield.Change) error {
	_, err := urlnorm.Canonical(c.URL.To)
	if refused, ok := errors.AsType[*urlnorm.Error](err); ok {
		return errs.New(errs.InvalidURL, "%s", refused.Reason).At("url")
	}
	l.OriginalURL = urlnorm.Trim(c.URL.To)
	if err := l.normalizeCode(); err != nil {
		return err
	}
	isOwner := func(p *linkfield.Pair) bool { return p.Key == ownerKey }
	if slices.ContainsFunc(c.Metadata.To, isOwner) {
		return errs.New(errs.InvalidInput, "The pair owner is that of the file.").At("metadata")
	}
	c.Metadata = optional.Set(append(c.Metadata.To, &linkfield.Pair{Key: ownerKey, Value: owner}))
	for _, f := range linkfield.Fields {
		if err := f.Set(&l.Values, c); err != nil {
			return err
		}
	}
	if l.Metadata, err = l.Values.Metadata.Pairs(); err != nil {
		return err
	}
	l.StartsAt, l.ExpiresAt = instant(l.StartsAt), instant(l.ExpiresAt)
	if err := linkfield.CheckPeriod(l.StartsAt, l.ExpiresAt); err != nil {
		return err
	}
	return l.normalizeRouting()
}

// normalizeCode fills in the strategy, as an upsert does, and checks the code.
func (l *Link) normalizeCode() error {
	code := l.CustomCode
	if l.Strategy == "" {
		if l.Strategy = random; code != nil {
			l.Strategy = custom
		}
	}
	switch {
	case !slices.Contains([]string{custom, deterministic, random, counter}, l.Strategy):
		return errs.New(errs.InvalidInput, "strategy must be CUSTOM, DETERMINISTIC, RANDOM or COUNTER.").At("strategy")
	case (l.Strategy == custom) != (code != nil):
		return errs.New(errs.InvalidInput, "A CUSTOM link must have a code, and other links none.").At("strategy")
	case code == nil:
		return nil
	case l.DomainID != nil:
		own, err := shortcode.ValidateOwn(*code)
		if err != nil {
			return errs.New(errs.InvalidInput, "%s", err).At("code")
		}
		l.CustomCode = &own
	default:
		if err := shortcode.ValidateCustom(*code); err != nil {
			return errs.New(errs.InvalidInput, "%s", err).At("code")
		}
		if shortcode.Reserved(*code) {
			return errs.New(errs.CodeReserved, "The server keeps this word for itself. Choose another code.").At("code")
		}
	}
	return nil
}

// normalizeRouting gives the routing the values that package check gives a new link, without ids.
func (l *Link) normalizeRouting() error {
	in := optional.Value(l.Routing)
	hasPassword := l.hasPassword()
	if err := in.refuse(); err != nil {
		return errs.From(err).Under("routing")
	}
	after, err := check.Apply(in.change(), nil)
	if err != nil {
		return errs.From(err).Under("routing")
	}
	if after == nil {
		after = &routing.Routing{}
	}
	normal := &Routing{
		Rules: after.Rules, ForwardPath: after.ForwardPath, UTM: after.UTM, PendingURL: after.PendingURL,
		EndedURL: after.EndedURL,
		Card:     after.Card, Bots: optional.Of(after.Bots), QRSources: after.QRSources, Tests: after.Tests,
	}
	if q := after.Query; q.Mode != "" && q.Mode != routing.Off || len(q.Only)+len(q.Except) > 0 {
		normal.Query = &q
	}
	if gate := optional.Value(after.Gate); hasPassword || gate != (routing.Gate{}) {
		normal.Gate = &Gate{HasPassword: hasPassword, Notice: gate.Notice, Confirm: gate.Confirm}
	}
	for _, rule := range normal.Rules {
		rule.ID = ""
		for _, target := range rule.Targets {
			target.ID = ""
		}
		for _, k := range slices.Concat(rule.When, rule.Unless) {
			if k.During != nil {
				k.During.From, k.During.To = instant(k.During.From), instant(k.During.To)
			}
		}
	}
	for _, test := range normal.Tests {
		test.Visit.At = instant(test.Visit.At)
	}
	l.Routing = normal
	return nil
}

// refuse returns InvalidInput for values that the API takes and does not return, so that they
// cannot be compared.
func (r *Routing) refuse() error {
	if r.UTM != nil && r.UTM.TemplateID != nil {
		return errs.New(errs.InvalidInput, "Write the values: a template is copied, and not part of the link.").
			At("utm", "templateId")
	}
	for i, rule := range r.Rules {
		isNamed := rule.ID != ""
		for _, target := range rule.Targets {
			isNamed = isNamed || target.ID != ""
		}
		if isNamed {
			return errs.New(errs.InvalidInput,
				"A file has no ids of rules and targets. They keep theirs by their names.").At("rules", strconv.Itoa(i))
		}
	}
	return nil
}

// change returns the change that sets every field except the password.
func (r *Routing) change() *routing.Change {
	gate := optional.Value(r.Gate)
	return &routing.Change{
		Rules: optional.Set(r.Rules), Query: optional.Set(r.Query), ForwardPath: optional.Set(&r.ForwardPath),
		UTM:        optional.Set(r.UTM),
		PendingURL: optional.Set(r.PendingURL), EndedURL: optional.Set(r.EndedURL), Card: optional.Set(r.Card),
		Gate: optional.Set(&routing.GateChange{Notice: optional.Set(gate.Notice),
			Confirm: optional.Set(&gate.Confirm)}),
		Bots: optional.Set(r.Bots), QRSources: optional.Set(r.QRSources), Tests: optional.Set(r.Tests),
	}
}

// instant returns a time as the server stores it.
func instant(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	return new(at.UTC().Truncate(time.Microsecond))
}

// field is a field with its value as JSON, which is null for the default.
type field struct {
	name  string
	value json.RawMessage
}

// fields returns the fields by their names in the API. The password of a gate is not among them.
func (l *Link) fields() []field {
	all := []field{{"url", encode(l.OriginalURL)}, {"strategy", encode(l.Strategy)}, {"code", encode(l.CustomCode)},
		{"domainId", encode(l.DomainID)}}
	for _, isState := range []bool{false, true} { // states are last, as in files of earlier versions
		for _, f := range linkfield.Fields {
			if !isApart[f.Name] && isState == (!f.IsPlanned && !f.Restricts) {
				all = append(all, field{f.Name, encode(f.Value(&l.Values))})
			}
		}
	}
	all = append(all, field{"metadata", encode(l.Metadata)})
	routed := *l.Routing
	if gate := optional.Value(routed.Gate); gate.Notice == nil && !gate.Confirm {
		routed.Gate = nil
	} else {
		routed.Gate = &Gate{Notice: gate.Notice, Confirm: gate.Confirm}
	}
	parts := reflect.ValueOf(routed)
	for i := range parts.NumField() {
		all = append(all, field{"routing." + parts.Type().Field(i).Tag.Get("json"), encode(parts.Field(i).Interface())})
	}
	return all
}

// isApart are the fields that a manifest writes in another way than others, or not at all.
var isApart = map[string]bool{"url": true, "externalId": true, "metadata": true, "routing": true}

const null = "null"

// encode returns a value as JSON, and null for an empty one.
func encode(value any) json.RawMessage {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // plain data
	switch written := strings.TrimSpace(text.String()); written {
	case "[]", "false", "0", `""`:
		return json.RawMessage(null)
	default:
		return json.RawMessage(written)
	}
}

// input returns all fields for upsertLinks or updateLinks. A gate keeps its password.
func (l *Link) input() map[string]any {
	routed := map[string]any{}
	in := map[string]any{"routing": routed}
	for _, f := range l.fields() {
		if part, ok := strings.CutPrefix(f.name, "routing."); ok {
			routed[part] = f.value
		} else {
			in[f.name] = f.value
		}
	}
	in["customCode"] = in["code"] // the API's name
	delete(in, "code")
	in["archived"], in["statsPublic"] = l.Archived, l.StatsPublic // null does not reset them in updateLinks
	gate := optional.Value(l.Routing.Gate)
	routed["gate"] = map[string]any{"notice": gate.Notice, "confirm": gate.Confirm}
	return in
}
