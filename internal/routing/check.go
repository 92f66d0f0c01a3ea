package routing

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/validate"
)

// MaxStored is the size of the largest routing as JSON, in bytes.
const MaxStored = 64 << 10

// The other limits of a routing. Lengths are in characters unless bytes are named.
const (
	maxRules       = 50
	maxConditions  = 20
	maxTargets     = 10
	maxValues      = 100
	maxShare       = 1000
	maxNames       = 50
	maxName        = 100
	maxQueryValue  = 500
	maxUTMValue    = 100
	maxSources     = 50
	maxTests       = 50
	maxPath        = 2048 // bytes
	maxCompiled    = 16 << 10
	maxSampleAgent = 512 // bytes, also of Accept-Language
	maxReferrer    = 1024
	maxQuery       = 4096
	minPassword    = 8
	maxPassword    = 128
	maxNotice      = 2000
)

// Check validates a routing and replaces its values by their normal forms. It returns InvalidInput or
// InvalidURL with the position of the value. Whether its URLs may be redirected to is for the caller
// to check, see URLs. Its size, which includes the ids, is checked by CheckSize.
func (r *Routing) Check() error {
	c := &checker{}
	c.routing(r)
	return c.result()
}

// CheckSize bounds the stored and the compiled routing. It returns InvalidInput.
func (r *Routing) CheckSize() error {
	c := &checker{}
	c.size(r)
	return c.result()
}

// Check validates campaign parameters.
func (u *UTM) Check() error {
	c := &checker{}
	c.utm(u)
	return c.result()
}

// CheckFallback validates a URL to which visitors without a destination are redirected, with its
// placeholders. It returns InvalidURL.
func CheckFallback(url string) error {
	c := &checker{}
	c.fallback(url)
	return c.result()
}

// checker keeps the first error, and the path of the value that it checks.
type checker struct {
	path []string
	err  *errs.Error
}

func (c *checker) result() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

// in checks the value at a name or an index below the present one.
func (c *checker) in(name string, check func()) {
	if c.err != nil {
		return
	}
	c.path = append(c.path, name)
	check()
	c.path = c.path[:len(c.path)-1]
}

// each checks the elements of a list, of which there are from least to most.
func each[T any](c *checker, name string, list []T, least, most int, check func(i int)) {
	c.in(name, func() {
		if len(list) < least || len(list) > most {
			c.refuse("%s must have from %d to %d elements; it has %d.", name, least, most, len(list))
		}
		for i := range list {
			c.in(strconv.Itoa(i), func() { check(i) })
		}
	})
}

func (c *checker) refuse(format string, args ...any) {
	c.fail(errs.New(errs.InvalidInput, format, args...))
}

func (c *checker) fail(err *errs.Error) {
	if c.err == nil {
		c.err = err.At(slices.Clone(c.path)...)
	}
}

// text validates a line of text.
func (c *checker) text(name string, value *string, most int) {
	if value == nil {
		return
	}
	c.in(name, func() {
		line, err := validate.Line(name, *value, 1, most)
		if err != nil {
			c.fail(errs.From(err))
		}
		*value = line
	})
}

// bytes bounds a text that is compared as it is.
func (c *checker) bytes(name string, value *string, most int) {
	switch {
	case value == nil:
	case len(*value) > most:
		c.in(name, func() { c.refuse("%s must have at most %d bytes; it has %d.", name, most, len(*value)) })
	case strings.ContainsAny(*value, "\x00\r\n"):
		c.in(name, func() { c.refuse("%s must have neither line breaks nor the character U+0000.", name) })
	}
}

func (c *checker) routing(r *Routing) {
	names := map[string]bool{}
	each(c, "rules", r.Rules, 0, maxRules, func(i int) {
		c.unique(names, r.Rules[i].Name)
		c.rule(r.Rules[i])
	})
	c.in("query", func() { c.forwarding(&r.Query) })
	if r.UTM != nil {
		c.in("utm", func() { c.utm(r.UTM) })
	}
	if r.PendingURL != nil {
		c.in("pendingUrl", func() { *r.PendingURL = c.fallback(*r.PendingURL) })
	}
	if r.EndedURL != nil {
		c.in("endedUrl", func() { *r.EndedURL = c.fallback(*r.EndedURL) })
	}
	if r.Card != nil {
		c.in("card", func() { c.card(r.Card) })
	}
	if r.Gate != nil {
		c.in("gate", func() { c.gate(r.Gate) })
	}
	c.in("bots", func() { c.bots(&r.Bots) })
	each(c, "qrSources", r.QRSources, 0, maxSources, func(i int) { c.source(r.QRSources[i], r.QRSources[:i]) })
	each(c, "tests", r.Tests, 0, maxTests, func(i int) { c.test(r.Tests[i]) })
}

func (c *checker) gate(g *Gate) {
	if g.Notice == nil {
		return
	}
	c.in("notice", func() {
		lines, err := validate.Lines("notice", *g.Notice, 1, maxNotice)
		if err != nil {
			c.fail(errs.From(err))
		}
		g.Notice = &lines
	})
}

// bots replaces the default by an empty text, as routings are stored.
func (c *checker) bots(p *BotPolicy) {
	switch *p {
	case RedirectBots:
		*p = ""
	case "", ConfirmBots, BlockBots:
	default:
		c.refuse("bots must be REDIRECT, CONFIRM or BLOCK.")
	}
}

// checkPassword validates a new password. It returns InvalidInput.
func (c *Change) checkPassword() error {
	password := c.NewPassword()
	if password == nil || password.IsValid() {
		return nil
	}
	return errs.New(errs.InvalidInput, "The password must have from %d to %d characters.", minPassword, maxPassword).
		At("gate", "password")
}

// IsValid reports whether the text may be a password.
func (p *Password) IsValid() bool {
	n := utf8.RuneCountInString(p.Text)
	return n >= minPassword && n <= maxPassword
}

func (c *checker) size(r *Routing) {
	text, err := json.Marshal(r)
	if err != nil {
		c.refuse("The routing must be plain text.")
		return
	}
	if n := len(text); n > MaxStored {
		c.refuse("The routing must have at most %d KiB as JSON; it has %d.", MaxStored>>10, (n+1023)>>10)
	}
	if n := len(Compile(r)); n > maxCompiled {
		c.refuse("The routing must have at most %d KiB when compiled; it has %d. Use fewer or shorter URLs and values.",
			maxCompiled>>10, (n+1023)>>10)
	}
}

// unique refuses a name that an earlier sibling has.
func (c *checker) unique(names map[string]bool, name *string) {
	if name == nil {
		return
	}
	c.text("name", name, maxName)
	if names[*name] {
		c.in("name", func() { c.refuse("The name is used twice in this list. Names must be unique.") })
	}
	names[*name] = true
}

// source validates the name of a QR code. It is part of the code's URL, so it needs no encoding.
func (c *checker) source(name string, before []string) {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789-"
	switch {
	case len(name) < 1 || len(name) > MaxSource || strings.Trim(name, allowed) != "":
		c.refuse("The name of a QR code must have from 1 to %d of the characters a-z, 0-9 and -.", MaxSource)
	case slices.Contains(before, name):
		c.refuse("The name is used twice in this list. Names must be unique.")
	}
}

func (c *checker) rule(r *Rule) {
	if r.Enabled == nil {
		r.Enabled = new(true)
	}
	switch r.Stickiness {
	case "":
		r.Stickiness = NotSticky
	case NotSticky, ByVisitor, ByCookie:
	default:
		c.in("stickiness", func() { c.refuse("stickiness must be NONE, VISITOR or COOKIE.") })
	}
	each(c, "when", r.When, 0, maxConditions, func(i int) { c.condition(r.When[i]) })
	each(c, "unless", r.Unless, 0, maxConditions, func(i int) { c.condition(r.Unless[i]) })
	names, sum := map[string]bool{}, 0
	each(c, "targets", r.Targets, 1, maxTargets, func(i int) {
		c.unique(names, r.Targets[i].Name)
		c.target(r.Targets[i])
		sum += r.Targets[i].share()
	})
	if sum == 0 {
		c.in("targets", func() { c.refuse("At least one target must have a share above 0.") })
	}
}

func (c *checker) target(t *Target) {
	if t.Share == nil {
		t.Share = new(1)
	}
	if *t.Share < 0 || *t.Share > maxShare {
		c.in("share", func() { c.refuse("share must be from 0 to %d.", maxShare) })
	}
	if t.MaxClicks != nil && *t.MaxClicks < 1 {
		c.in("maxClicks", func() { c.refuse("maxClicks must be at least 1.") })
	}
	if t.URL != nil {
		c.in("url", func() { *t.URL = c.url(*t.URL) })
	}
}

// url validates a destination and returns it as it is stored.
func (c *checker) url(url string) string {
	_, err := urlnorm.Canonical(url)
	if refused, ok := errors.AsType[*urlnorm.Error](err); ok {
		c.fail(errs.New(errs.InvalidURL, "%s", refused.Reason).Because(err))
	}
	return urlnorm.Trim(url)
}

// fallback is url for a URL with placeholders. Braces have no other use in it.
func (c *checker) fallback(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	before, fragment, _ := strings.Cut(rest[end:], "#")
	left := strings.NewReplacer("{code}", "", "{host}", "").Replace(before)
	if strings.ContainsAny(scheme+rest[:end]+left+fragment, "{}") {
		c.fail(errs.New(errs.InvalidURL, "Braces are for the placeholders {code} and {host}, in the path and the query. "+
			"Percent-encode others as %%7B and %%7D."))
		return url
	}
	c.url(longest.Replace(url))
	return urlnorm.Trim(url)
}

// longest replaces placeholders by the longest values that they can have.
var longest = strings.NewReplacer("{code}", strings.Repeat("c", 3*64), "{host}", strings.Repeat("h", 253))

func (c *checker) forwarding(f *Forwarding) {
	switch f.Mode {
	case "":
		f.Mode = Off
	case Off, Add, Replace:
	default:
		c.in("mode", func() { c.refuse("mode must be OFF, ADD or REPLACE.") })
	}
	if len(f.Only) > 0 && len(f.Except) > 0 {
		c.in("except", func() { c.refuse("Give only or except, not both.") })
	}
	c.parameters("only", f.Only)
	c.parameters("except", f.Except)
}

func (c *checker) parameters(field string, names []string) {
	each(c, field, names, 0, maxNames, func(i int) {
		names[i] = validate.Normal(names[i])
		if n := len([]rune(names[i])); n < 1 || n > maxName {
			c.refuse("A name must have from 1 to %d characters; it has %d.", maxName, n)
		}
		c.noNull(names[i])
	})
}

func (c *checker) utm(u *UTM) {
	if u.TemplateID != nil {
		c.in("templateId", func() { c.fail(errs.New(errs.NotFound, "There is no such template in the workspace.")) })
	}
	hasValue := false
	for i, value := range u.values() {
		c.text(strings.TrimPrefix(utmNames[i], "utm_"), *value, maxUTMValue)
		hasValue = hasValue || *value != nil
	}
	if !hasValue {
		c.refuse("Give at least one value, or null for none.")
	}
}

func (c *checker) condition(k *Condition) {
	set := 0
	for _, isSet := range []bool{
		k.Country != nil, k.Device != nil, k.OS != nil, k.Browser != nil, k.Language != nil, k.Referrer != nil,
		k.Query != nil, k.During != nil, k.Weekly != nil, k.Network != nil, k.Visit != nil, k.Bot != nil,
	} {
		if isSet {
			set++
		}
	}
	if set != 1 {
		c.refuse("A condition must have exactly one field that is not null; it has %d.", set)
		return
	}
	c.values("country", k.Country, normalCountry)
	c.values("device", k.Device, normalDevice)
	c.values("os", k.OS, normalName)
	c.values("browser", k.Browser, normalName)
	c.values("language", k.Language, normalLanguage)
	c.values("referrer", k.Referrer, normalReferrer)
	c.values("network", k.Network, normalNetwork)
	switch {
	case k.Query != nil:
		c.in("query", func() { c.query(k.Query) })
	case k.During != nil:
		c.in("during", func() { c.during(k.During) })
	case k.Weekly != nil:
		c.in("weekly", func() { c.weekly(k.Weekly) })
	case k.Visit != nil:
		c.visit("visit", k.Visit)
	}
}

// values replaces values by their normal forms. Normal returns an error message for a value that has
// none.
func (c *checker) values(name string, values []string, normal func(string) (form, refusal string)) {
	if values == nil {
		return
	}
	each(c, name, values, 1, maxValues, func(i int) {
		form, refusal := normal(values[i])
		if refusal != "" {
			c.refuse("%s", refusal)
		}
		values[i] = form
	})
}

func normalCountry(code string) (form, refusal string) {
	if code != "" && !isCountry(code) {
		return "", "A country must be an ISO 3166-1 code of two upper-case letters, as in GB, or empty for unknown."
	}
	return code, ""
}

func normalDevice(device string) (form, refusal string) {
	if device != "" && !slices.Contains(devices[:], device) {
		return "", "A device must be " + strings.Join(devices[:], ", ") + ", or empty for unknown."
	}
	return device, ""
}

func normalName(name string) (form, refusal string) {
	form, err := validate.Line("A name", name, 0, maxName)
	if err != nil {
		refusal = errs.From(err).Message
	}
	return form, refusal
}

func normalLanguage(tag string) (form, refusal string) {
	if tag != "" && !isLanguage(tag) {
		return "", "A language must be a BCP 47 tag, as in de or pt-BR, or empty for unknown."
	}
	return tag, ""
}

// isLanguage reports whether a text has the form of a BCP 47 tag that begins with a language.
func isLanguage(tag string) bool {
	const letters, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
	for i, subtag := range strings.Split(strings.ToLower(tag), "-") {
		if subtag == "" || len(subtag) > 8 || strings.Trim(subtag, letters+digits) != "" {
			return false
		}
		if i == 0 && (len(subtag) < 2 || strings.Trim(subtag, letters) != "") {
			return false
		}
	}
	return true
}

// normalReferrer returns the host as visits are read: without "www.".
func normalReferrer(host string) (form, refusal string) {
	if host == "" {
		return "", ""
	}
	bare, isSuffix := strings.CutPrefix(host, ".")
	u, err := urlnorm.Canonical("https://" + bare + "/")
	if err != nil || strings.ContainsAny(bare, "/?#@:") {
		return "", "A referrer must be a host, as in example.com, or .example.com for it and all hosts below, or empty " +
			"for unknown."
	}
	form = u.Host()
	if isSuffix {
		return "." + form, ""
	}
	if short, ok := strings.CutPrefix(form, "www."); ok && strings.Contains(short, ".") {
		form = short
	}
	return form, ""
}

func normalNetwork(network string) (form, refusal string) {
	prefix, err := parseNetwork(network)
	if err != nil {
		return "", "A network must be an address, or a network in CIDR notation, as in 192.0.2.0/24 or 2001:db8::/32."
	}
	if prefix.IsSingleIP() {
		return prefix.Addr().String(), ""
	}
	return prefix.String(), ""
}

func parseNetwork(network string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(network); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return address.Prefix(address.BitLen())
	}
	prefix, err := netip.ParsePrefix(network)
	if err == nil && prefix.Addr().Is4In6() {
		prefix, err = prefix.Addr().Unmap().Prefix(prefix.Bits() - ipv4Bits)
	}
	return prefix.Masked(), err
}

func (c *checker) query(q *QueryCondition) {
	q.Name = validate.Normal(q.Name)
	if q.Value != nil {
		*q.Value = validate.Normal(*q.Value)
	}
	if n := len([]rune(q.Name)); n < 1 || n > maxName {
		c.in("name", func() { c.refuse("name must have from 1 to %d characters; it has %d.", maxName, n) })
	}
	if q.Value != nil && len([]rune(*q.Value)) > maxQueryValue {
		c.in("value", func() { c.refuse("value must have at most %d characters.", maxQueryValue) })
	}
	c.noNull(q.Name + optional.Value(q.Value))
}

// noNull refuses the one character that PostgreSQL does not store.
func (c *checker) noNull(parameter string) {
	if strings.ContainsRune(parameter, 0) {
		c.refuse("A query parameter must not have the character U+0000.")
	}
}

func (c *checker) during(p *Period) {
	switch {
	case p.From == nil && p.To == nil:
		c.refuse("Give from, to, or both.")
	case p.From != nil && p.To != nil && !p.From.Before(*p.To):
		c.in("to", func() { c.refuse("to must be after from.") })
	}
}

func (c *checker) weekly(w *WeeklySchedule) {
	if zoneOf(w.Timezone) == nil {
		c.in("timezone", func() { c.refuse("timezone must be an IANA name, as in Europe/Berlin.") })
	}
	each(c, "days", w.Days, 1, len(weekdays), func(i int) {
		if !slices.Contains(weekdays[:], w.Days[i]) {
			c.refuse("A day must be MONDAY to SUNDAY.")
		}
	})
	from, to := parseClock(w.From), parseClock(w.To)
	switch {
	case from < 0 || from == minutesOfDay:
		c.in("from", func() { c.refuse("from must be a time from 00:00 to 23:59.") })
	case to < 0:
		c.in("to", func() { c.refuse("to must be a time from 00:00 to 24:00.") })
	case from == to:
		c.in("to", func() { c.refuse("to must differ from from. For whole days use 00:00 and 24:00.") })
	}
}

func (c *checker) visit(name string, kind *VisitKind) {
	if kind != nil && *kind != FirstToday && *kind != ReturningToday {
		c.in(name, func() { c.refuse("%s must be FIRST_TODAY or RETURNING_TODAY.", name) })
	}
}

func (c *checker) test(t *Test) {
	c.text("name", t.Name, maxName)
	switch {
	case t.Visit == nil:
		c.refuse("A test must have a visit.")
		return
	case t.Status == nil && t.Location == nil:
		c.refuse("A test must have a status, a location, or both.")
	case t.Status != nil && (*t.Status < 100 || *t.Status > 599):
		c.in("status", func() { c.refuse("status must be from 100 to 599.") })
	}
	c.bytes("location", t.Location, MaxLocation)
	c.in("visit", func() { c.sample(t.Visit) })
}

// Check validates a visit. It returns InvalidInput.
func (s *Sample) Check() error {
	c := &checker{}
	c.sample(s)
	return c.result()
}

func (c *checker) sample(s *Sample) {
	if s.Country != nil {
		if _, refusal := normalCountry(*s.Country); refusal != "" {
			c.in("country", func() { c.refuse("%s", refusal) })
		}
	}
	c.bytes("userAgent", s.UserAgent, maxSampleAgent)
	c.bytes("acceptLanguage", s.AcceptLanguage, maxSampleAgent)
	c.bytes("referrer", s.Referrer, maxReferrer)
	c.bytes("query", s.Query, maxQuery)
	c.bytes("path", s.Path, maxPath)
	if s.Path != nil && *s.Path != "" && (*s.Path)[0] != '/' {
		c.in("path", func() { c.refuse("path must begin with a slash.") })
	}
	if s.Address != nil {
		if _, err := netip.ParseAddr(*s.Address); err != nil {
			c.in("address", func() { c.refuse("address must be an IPv4 or IPv6 address.") })
		}
	}
	if s.PassesGate() {
		s.GatePassed = nil
	}
	c.visit("visit", s.Visit)
	c.bytes("targetId", s.TargetID, maxName)
}

// EnabledURLs returns the URLs that the rules may choose; the link's own is not among them.
func (r *Routing) EnabledURLs() (urls []string) {
	if r == nil {
		return nil
	}
	for _, rule := range r.Rules {
		for _, target := range rule.Targets {
			if rule.isEnabled() && target.share() > 0 && target.URL != nil {
				urls = append(urls, *target.URL)
			}
		}
	}
	return urls
}

// URLs returns all URLs of a routing, with their positions. A nil routing has none.
func (r *Routing) URLs() (urls []URL) {
	if r == nil {
		return nil
	}
	for i, rule := range r.Rules {
		for j, target := range rule.Targets {
			if target.URL != nil {
				field := []string{"rules", strconv.Itoa(i), "targets", strconv.Itoa(j), "url"}
				urls = append(urls, URL{Field: field, URL: *target.URL})
			}
		}
	}
	if r.PendingURL != nil {
		urls = append(urls, fallbackURL("pendingUrl", *r.PendingURL))
	}
	if r.EndedURL != nil {
		urls = append(urls, fallbackURL("endedUrl", *r.EndedURL))
	}
	return append(urls, r.Card.imageURLs()...)
}

func fallbackURL(field, url string) URL {
	return URL{Field: []string{field}, URL: url, IsTemplate: WithoutPlaceholders(url) != url}
}

// WithoutPlaceholders returns a fallback URL with sample values, which has the same host.
func WithoutPlaceholders(url string) string {
	return strings.NewReplacer("{code}", "code", "{host}", "host").Replace(url)
}
