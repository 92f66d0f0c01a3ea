package check

import (
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/route/routing"
)

func (c *checker) condition(k *routing.Condition) {
	if k == nil { // as an archive can have it
		c.refuse("A condition must not be null.")
		return
	}
	set := 0
	for _, isSet := range []bool{
		k.Country != nil, k.Device != nil, k.OS != nil, k.Browser != nil, k.Language != nil, k.Referrer != nil,
		k.Query != nil, k.During != nil, k.Weekly != nil, k.Network != nil, k.Bot != nil,
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
	}
}

// values replaces values by their normal forms. Normal returns an error message for a value that
// has none.
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

// devices are the kinds of devices that visits have, as package visitor names them.
var devices = [...]string{"desktop", "mobile", "tablet", "tv", "console", "other"}

// countries are the officially assigned codes of ISO 3166-1 alpha-2, and XK, which databases of
// countries use for Kosovo.
const countries = "" +
	"AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT " +
	"BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI " +
	"FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ " +
	"IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK " +
	"ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN " +
	"PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH " +
	"TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW"

func isCountry(code string) bool {
	return len(code) == 2 && !strings.Contains(code, " ") && strings.Contains(countries, code)
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
		return "",
			"A referrer must be a host, as in example.com, or .example.com for it and all hosts below, or empty " +
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
	prefix, err := routing.ParseNetwork(network)
	if err != nil {
		return "", "A network must be an address, or a network in CIDR notation, as in 192.0.2.0/24 or 2001:db8::/32."
	}
	if prefix.IsSingleIP() {
		return prefix.Addr().String(), ""
	}
	return prefix.String(), ""
}

func (c *checker) query(q *routing.QueryCondition) {
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

func (c *checker) during(p *routing.Period) {
	switch {
	case p.From == nil && p.To == nil:
		c.refuse("Give from, to, or both.")
	case p.From != nil && p.To != nil && !p.From.Before(*p.To):
		c.in("to", func() { c.refuse("to must be after from.") })
	}
}

func (c *checker) weekly(w *routing.WeeklySchedule) {
	if routing.LoadZone(w.Timezone) == nil {
		c.in("timezone", func() { c.refuse("timezone must be an IANA name, as in Europe/Berlin.") })
	}
	each(c, "days", w.Days, 1, len(routing.Weekdays), func(i int) {
		if !slices.Contains(routing.Weekdays[:], w.Days[i]) {
			c.refuse("A day must be MONDAY to SUNDAY.")
		}
	})
	from, to := routing.ParseClock(w.From), routing.ParseClock(w.To)
	if from < 0 || from == routing.MinutesOfDay {
		c.in("from", func() { c.refuse("from must be a time from 00:00 to 23:59.") })
	}
	switch {
	case to < 0:
		c.in("to", func() { c.refuse("to must be a time from 00:00 to 24:00.") })
	case from == to:
		c.in("to", func() { c.refuse("to must differ from from. For whole days use 00:00 and 24:00.") })
	}
}
