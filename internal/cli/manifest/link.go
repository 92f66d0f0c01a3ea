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

// Link has the fields of a link in a manifest: the key, and those of the API's NewLinkInput without
// externalId. Its customCode is code.
type Link struct {
	Key            string            `json:"key"`
	URL            string            `json:"url"`
	Strategy       string            `json:"strategy"`
	CustomCode     *string           `json:"code"`
	DomainID       *string           `json:"domainId"`
	Title          *string           `json:"title"`
	Note           *string           `json:"note"`
	Tags           []string          `json:"tags"`
	FolderID       *string           `json:"folderId"`
	StartsAt       *time.Time        `json:"startsAt"`
	ExpiresAt      *time.Time        `json:"expiresAt"`
	MaxClicks      *int64            `json:"maxClicks"`
	RedirectStatus *int              `json:"redirectStatus"`
	Archived       bool              `json:"archived"`
	StatsPublic    bool              `json:"statsPublic"`
	Metadata       []*linkfield.Pair `json:"metadata"`
	Routing        *Routing          `json:"routing"`
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

// normalize gives the fields the values that the server stores. It returns InvalidInput or
// InvalidURL with the position of the value.
func (l *Link) normalize(owner string) (err error) {
	_, err = urlnorm.Canonical(l.URL)
	if refused, ok := errors.AsType[*urlnorm.Error](err); ok {
		return errs.New(errs.InvalidURL, "%s", refused.Reason).At("url")
	}
	l.URL = urlnorm.Trim(l.URL)
	if err := l.normalizeCode(); err != nil {
		return err
	}
	if l.Title, err = linkfield.CheckTitle(l.Title); err != nil {
		return err
	}
	if l.Note, err = linkfield.CheckNote(l.Note); err != nil {
		return err
	}
	if l.Tags, err = linkfield.CheckTags(l.Tags); err != nil {
		return err
	}
	l.StartsAt, l.ExpiresAt = instant(l.StartsAt), instant(l.ExpiresAt)
	if err := linkfield.CheckPeriod(l.StartsAt, l.ExpiresAt); err != nil {
		return err
	}
	if l.RedirectStatus != nil {
		if _, err := linkfield.CheckRedirectStatus(*l.RedirectStatus); err != nil {
			return err
		}
	}
	if _, err := linkfield.CheckMaxClicks(l.MaxClicks); err != nil {
		return err
	}
	if err := l.normalizeMetadata(owner); err != nil {
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

// normalizeMetadata adds the owner, and sorts the pairs.
func (l *Link) normalizeMetadata(owner string) error {
	if slices.ContainsFunc(l.Metadata, func(p *linkfield.Pair) bool { return p.Key == ownerKey }) {
		return errs.New(errs.InvalidInput, "The pair owner is that of the file.").At("metadata")
	}
	metadata, err := linkfield.NewMetadata(append(slices.Clone(l.Metadata),
		&linkfield.Pair{Key: ownerKey, Value: owner}))
	if err == nil {
		l.Metadata, err = metadata.Pairs()
	}
	return err
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
	routed := *l.Routing
	if gate := optional.Value(routed.Gate); gate.Notice == nil && !gate.Confirm {
		routed.Gate = nil
	} else {
		routed.Gate = &Gate{Notice: gate.Notice, Confirm: gate.Confirm}
	}
	return append(fieldsOf(l, ""), fieldsOf(&routed, "routing.")...)
}

// fieldsOf returns the fields of a struct in their order, but for the key and the routing of a link.
func fieldsOf(pointer any, prefix string) (all []field) {
	value := reflect.ValueOf(pointer).Elem()
	for _, f := range reflect.VisibleFields(value.Type()) {
		if name := f.Tag.Get("json"); name != "key" && name != "routing" {
			all = append(all, field{prefix + name, encode(value.FieldByIndex(f.Index).Interface())})
		}
	}
	return all
}

const null = "null"

// encode returns a value as JSON, and null for an empty one.
func encode(value any) json.RawMessage {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // plain data
	switch written := strings.TrimSpace(text.String()); written {
	case "[]", "false", `""`:
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
