package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/link/linkfield"
)

// Write returns the manifest of the owner's links among existing ones, without deleted ones, in the
// order of their keys. Equal links give equal bytes. Values are JSON, which is YAML that no reader
// takes for another type.
func Write(owner string, existing []*Existing, s Settings) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "version: 1\nowner: %s\nlinks:", Printable(encode(owner)))
	links := slices.Clone(existing)
	slices.SortFunc(links, func(a, b *Existing) int { return cmp.Compare(a.ExternalID, b.ExternalID) })
	n := 0
	for _, e := range links {
		key, ok := strings.CutPrefix(e.ExternalID, owner+"/")
		if !ok || e.DeletedAt != nil {
			continue
		}
		n++
		l := e.link()
		l.Key = key
		l.write(&b, s)
	}
	if n == 0 {
		b.WriteString(" []")
	}
	b.WriteString("\n")
	return b.Bytes()
}

// write writes a link as an element of a list.
func (l *Link) write(b *bytes.Buffer, s Settings) {
	l.Metadata = slices.DeleteFunc(slices.Clone(l.Metadata), func(p *linkfield.Pair) bool { return p.Key == ownerKey })
	if l.RedirectStatus == s.DefaultRedirectStatus {
		l.RedirectStatus = 0
	}
	fields := append([]field{{"key", encode(l.Key)}}, l.fields()...)
	for i, f := range fields {
		switch {
		case f.name == "strategy" && (l.Strategy == random || l.Strategy == custom): // they follow from the code
			fields[i].value = json.RawMessage(null)
		case f.name == "routing.gate" && l.Routing.Gate != nil:
			fields[i].value = encode(l.Routing.Gate)
		}
	}
	indent, inRouting := "\n  - ", false
	for _, f := range fields {
		if string(f.value) == null {
			continue
		}
		part, isRouting := strings.CutPrefix(f.name, "routing.")
		if isRouting && !inRouting {
			b.WriteString("\n    routing:")
			indent, inRouting = "\n      ", true
		}
		fmt.Fprintf(b, "%s%s: %s", indent, part, Printable(f.value))
		if !inRouting {
			indent = "\n    "
		}
	}
}

// Printable escapes the characters of JSON that could control a terminal or disguise text. The
// value stays the same.
func Printable(text json.RawMessage) string {
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		// JSON and YAML have different escapes for these
		case r == '\n' || unicode.IsGraphic(r) && r != utf8.RuneError || r > 0xffff:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
