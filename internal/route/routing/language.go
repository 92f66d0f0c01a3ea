package routing

import (
	"strings"

	"golang.org/x/text/language"
)

// languageAliases replaces deprecated and equivalent subtags: iw by he, nb by no, cmn by zh, UK by
// GB.
const languageAliases = language.Default | language.Macro

// maxParsedTag bounds the language tags that are parsed, in bytes. BCP 47 recommends room for 35.
const maxParsedTag = 64

// languageForm returns the canonical form of a language tag, in lower case: the language, its
// script, its region and the rest. A tag of a rule names the languages of visitors whose forms
// begin with its own, as the lookup of RFC 4647: zh names all, and zh-TW (zh-hant-tw) names zh-TW
// and zh-Hant-TW, but not zh or zh-Hans-TW.
//
// The form of a visitor's language always has a script, the likely one if the tag has none. With a
// script but no region, it has the likely region: zh-Hant is that of zh-TW. What BCP 47 does not
// know is compared as it is.
func languageForm(tag string, ofVisitor bool) string {
	if len(tag) > maxParsedTag {
		return strings.ToLower(tag)
	}
	parsed, err := languageAliases.Parse(tag)
	if err != nil {
		return strings.ToLower(tag)
	}
	base, script, region := parsed.Raw()
	hasScript, hasRegion := script != language.Script{}, region != language.Region{}
	given := appendSubtags(base.String(), script, region)
	rest := strings.TrimPrefix(parsed.String(), given)
	if !hasScript && (ofVisitor || hasRegion || rest != "") {
		script, _ = parsed.Script()
	}
	if ofVisitor && hasScript && !hasRegion {
		region, _ = parsed.Region()
	}
	return strings.ToLower(appendSubtags(base.String(), script, region) + rest)
}

func appendSubtags(form string, script language.Script, region language.Region) string {
	if script != (language.Script{}) {
		form += "-" + script.String()
	}
	if region != (language.Region{}) {
		form += "-" + region.String()
	}
	return form
}

// ComparesLanguages reports whether an enabled rule has a condition on the language.
func (c Compiled) ComparesLanguages() bool { return c.has(hasLanguages) }

// visitLanguage is a language of a visitor: its tag as sent, and its form.
type visitLanguage struct{ tag, form string }

// decidingLanguage returns the one language that conditions see: the first of the visitor's that a
// condition of the compiled rules names, so that a later one does not beat it. If none is named, it
// is the first.
func decidingLanguage(tags []string, rules FlatReader) (first visitLanguage) {
	for i, tag := range tags {
		l := visitLanguage{tag, languageForm(tag, true)}
		if nameLanguage(rules, l.form) {
			return l
		}
		if i == 0 {
			first = l
		}
	}
	return first
}

// nameLanguage reports whether a condition of compiled rules names a language.
func nameLanguage(rules FlatReader, form string) bool {
	for len(rules) > 0 {
		rule := FlatReader(rules.Text())
		readRule(&rule)
		for range rule.Byte() {
			if c := readCondition(&rule); c.kind == onLanguage && hasLanguage(c.values, form) {
				return true
			}
		}
	}
	return false
}

// hasLanguage reports whether a list has the beginning of a form. The empty text is the form of no
// language.
func hasLanguage(values FlatReader, form string) bool {
	for len(values) > 0 {
		value := values.Text()
		n := len(value)
		if strings.HasPrefix(form, value) && (len(form) == n || n > 0 && form[n] == '-') {
			return true
		}
	}
	return false
}
