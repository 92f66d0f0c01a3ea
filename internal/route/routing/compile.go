package routing

import (
	"math"
	"time"

	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// Compiled is a routing as Decide reads it: bytes without pointers, see flat.go. Empty means that
// the link has no routing. A disabled rule is left out.
//
// It begins with flags, the gate with hasGate, the fallback URLs, and the card with hasCard. How
// the query is forwarded, the values of UTM, the names of QR codes and the rules follow, each rule
// with its length, so that one that does not hold is skipped.
type Compiled string

// The flags of a compiled routing.
const (
	forwardsPath = 1 << iota
	hasCappedTarget
	hasCard
	hasGate
	confirmsBots
	blocksBots
	hasLanguages
)

// The kinds of conditions.
const (
	onBot byte = iota
	onCountry
	onDevice
	onOS
	onBrowser
	onLanguage
	onReferrer
	onDuring
	onQuery
	onNetwork
	onWeekly
	onUnknown
)

// conditionNames are the names of the kinds in the GraphQL schema.
var conditionNames = [...]string{
	onBot: "bot", onCountry: "country", onDevice: "device", onOS: "os", onBrowser: "browser", onLanguage: "language",
	onReferrer: "referrer", onDuring: "during", onQuery: "query", onNetwork: "network", onWeekly: "weekly",
}

// The kinds of stickiness as bytes.
const (
	drawAgain byte = iota
	drawByVisitor
	drawByCookie
)

// Compile translates a routing that package check has accepted, without the hash of its password.
func Compile(r *Routing) Compiled { return compile(r, nil) }

func compile(r *Routing, passwordHash *string) Compiled {
	if r.IsPlain() {
		return ""
	}
	b := []byte{r.flags()}
	if r.Gate != nil {
		b = AppendText(b, string(appendGate(nil, r.Gate, optional.Value(passwordHash))))
	}
	b = AppendText(b, fallbackText(r.PendingURL))
	b = AppendText(b, fallbackText(r.EndedURL))
	if r.Card != nil {
		b = appendCard(b, r.Card)
	}
	b = appendForwarding(b, r)
	b = AppendText(b, string(appendAll(nil, r.QRSources)))
	b = append(b, byte(len(r.Rules)))
	for i, rule := range r.Rules {
		if rule.isEnabled() {
			b = AppendText(b, string(appendRule(nil, i, rule)))
		}
	}
	return Compiled(b)
}

func fallbackText(url *string) string {
	if url == nil {
		return ""
	}
	return urlnorm.Location(*url)
}

func (r *Routing) flags() (flags byte) {
	if r.ForwardPath {
		flags |= forwardsPath
	}
	if r.Card != nil {
		flags |= hasCard
	}
	if r.Gate != nil {
		flags |= hasGate
	}
	switch r.Bots {
	case ConfirmBots:
		flags |= confirmsBots
	case BlockBots:
		flags |= blocksBots
	}
	for _, rule := range r.Rules {
		if !rule.isEnabled() {
			continue
		}
		for _, target := range rule.Targets {
			if target.MaxClicks != nil {
				flags |= hasCappedTarget
			}
		}
		for _, k := range rule.conditions() {
			if k.Language != nil {
				flags |= hasLanguages
			}
		}
	}
	return flags
}

func appendForwarding(b []byte, r *Routing) []byte {
	b = AppendText(b, string(r.Query.Mode))
	b = appendTexts(b, r.Query.Only)
	b = appendTexts(b, r.Query.Except)
	if r.UTM == nil {
		return append(b, 0)
	}
	values := r.UTM.values()
	b = append(b, byte(len(values)))
	for _, value := range values {
		b = AppendText(b, optional.Value(*value))
	}
	return b
}

func appendTexts(b []byte, texts []string) []byte {
	return appendAll(append(b, byte(len(texts))), texts)
}

func appendAll(b []byte, texts []string) []byte {
	for _, text := range texts {
		b = AppendText(b, text)
	}
	return b
}

func appendRule(b []byte, index int, r *Rule) []byte {
	b = append(b, byte(index), stickinessByte(r.Stickiness))
	b = AppendText(b, r.ID)
	b = append(b, byte(len(r.When)+len(r.Unless)))
	for i, k := range r.conditions() {
		b = append(b, k.kind(), boolByte(i >= len(r.When)))
		b = AppendText(b, string(appendCondition(nil, k)))
	}
	b = append(b, byte(len(r.Targets)))
	for _, t := range r.Targets {
		b = AppendText(b, t.ID)
		b = AppendNumber(b, targetHash(t.ID), 8)
		b = AppendNumber(b, uint64(t.EffectiveShare()), 2)
		b = AppendNumber(b, uint64(optional.Value(t.MaxClicks)), 8)
		b = AppendText(b, fallbackText(t.URL))
	}
	return b
}

func stickinessByte(s Stickiness) byte {
	switch s {
	case ByVisitor:
		return drawByVisitor
	case ByCookie:
		return drawByCookie
	}
	return drawAgain
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// kind returns the kind of the field that is not nil; onUnknown if a stored condition has another
// field.
func (k *Condition) kind() byte {
	switch {
	case k.Bot != nil:
		return onBot
	case k.Country != nil:
		return onCountry
	case k.Device != nil:
		return onDevice
	case k.OS != nil:
		return onOS
	case k.Browser != nil:
		return onBrowser
	case k.Language != nil:
		return onLanguage
	case k.Referrer != nil:
		return onReferrer
	case k.During != nil:
		return onDuring
	case k.Query != nil:
		return onQuery
	case k.Network != nil:
		return onNetwork
	case k.Weekly != nil:
		return onWeekly
	}
	return onUnknown
}

func appendCondition(b []byte, k *Condition) []byte {
	switch k.kind() {
	case onBot:
		return append(b, boolByte(*k.Bot))
	case onDuring:
		b = AppendNumber(b, uint64(microseconds(k.During.From, math.MinInt64)), 8)
		return AppendNumber(b, uint64(microseconds(k.During.To, math.MaxInt64)), 8)
	case onQuery:
		b = append(AppendText(b, k.Query.Name), boolByte(k.Query.Value != nil))
		return AppendText(b, optional.Value(k.Query.Value))
	case onLanguage:
		for _, tag := range k.Language {
			b = AppendText(b, languageForm(tag, false))
		}
		return b
	case onNetwork:
		return appendNetworks(b, k.Network)
	case onWeekly:
		return appendWeekly(b, k.Weekly)
	}
	for _, values := range [][]string{k.Country, k.Device, k.OS, k.Browser, k.Referrer} {
		b = appendAll(b, values)
	}
	return b
}

func microseconds(t *time.Time, otherwise int64) int64 {
	if t == nil {
		return otherwise
	}
	return t.UnixMicro()
}

// fallbackURLs returns the URLs of a link that has not started, and of one that has ended.
func (c Compiled) fallbackURLs() (pending, ended string) {
	if c == "" {
		return "", ""
	}
	r := c.afterGate()
	return r.Text(), r.Text()
}

// afterGate returns what follows the flags and the gate.
func (c Compiled) afterGate() FlatReader {
	r := FlatReader(c[1:])
	if c.has(hasGate) {
		r.Text()
	}
	return r
}

// forwarding is how a compiled routing forms a location.
type forwarding struct {
	Forwarding
	added []Parameter
}

// MaxNames is how many names a Forwarding has at most.
const MaxNames = 50

// forwardingBuffer holds the lists of a forwarding, so that reading them allocates nothing.
type forwardingBuffer struct {
	names [MaxNames]string
	added [len(utmNames)]Parameter
}

// open returns how locations are formed, the declared names of QR codes, the number of rules, which
// includes disabled ones, and the enabled rules.
func (c Compiled) open(buffer *forwardingBuffer) (f forwarding, sources FlatReader, count byte, rules FlatReader) {
	r := c.afterGate()
	r.Text()
	r.Text()
	if c.HasCard() {
		readCard(&r)
	}
	f.Mode = Mode(r.Text())
	f.Only = readTexts(&r, buffer.names[:0])
	f.Except = readTexts(&r, buffer.names[len(f.Only):len(f.Only)])
	if r.Byte() > 0 {
		f.added = buffer.added[:0]
		for _, name := range utmNames {
			if value := r.Text(); value != "" {
				f.added = append(f.added, Parameter{Name: name, Value: value})
			}
		}
	}
	sources = FlatReader(r.Text())
	return f, sources, r.Byte(), r
}

func readTexts(r *FlatReader, into []string) []string {
	for range r.Byte() {
		into = append(into, r.Text())
	}
	return into
}
