package routing

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/validate"
)

// MaxLocation is the largest location in bytes. Beyond it, the visitor's query and path are left
// out.
const MaxLocation = 8192

// MaxPath is the longest path after the code that is forwarded, in bytes.
const MaxPath = 2048

// Mode is how query parameters of the short URL reach the destination.
type Mode string

// The modes.
const (
	// Off forwards no parameters.
	Off Mode = "OFF"
	// Add forwards parameters whose names the destination does not have.
	Add Mode = "ADD"
	// Replace forwards parameters, which replace those of the destination with the same names.
	Replace Mode = "REPLACE"
)

// Forwarding selects the query parameters that reach the destination.
type Forwarding struct {
	// Mode is empty for Off.
	Mode Mode `json:"mode"`
	// Only are the decoded names that are forwarded; empty means all but Except.
	Only   []string `json:"only,omitempty"`
	Except []string `json:"except,omitempty"`
}

// Parameter is a decoded query parameter that the link adds to its destination.
type Parameter struct{ Name, Value string }

// Location adds to a destination, whose bytes stay as they are: parameters that it does not have
// yet, the visitor's raw query as far as it is forwarded, and the path after the code, which
// PathAllowed has accepted. Everything goes before the fragment. The visitor's part never reaches
// scheme, host or port.
func (f *Forwarding) Location(destination string, added []Parameter, rawQuery, path string) string {
	location := f.form(destination, added, rawQuery, path)
	if len(location) > MaxLocation && (rawQuery != "" || path != "") {
		return f.form(destination, added, "", "")
	}
	return location
}

func (f *Forwarding) form(destination string, added []Parameter, rawQuery, path string) string {
	if f.Mode.isOff() {
		rawQuery = ""
	}
	rest, fragment := cutBefore(destination, '#')
	base, query := cutBefore(rest, '?')
	b := new(strings.Builder)
	b.Grow(len(destination) + len(rawQuery) + len(path) + 64*len(added) + 2)
	b.WriteString(base)
	appendPath(b, base, path)
	pairs := queryWriter{b: b, separator: '?'}
	f.writeOwnQuery(&pairs, query, rawQuery)
	for _, p := range added {
		if !hasDecodedName(query, p.Name) && (f.Mode != Replace || !f.forwards(rawQuery, p.Name)) {
			pairs.addDecoded(p)
		}
	}
	for piece := range strings.SplitSeq(rawQuery, "&") {
		name := nameOf(piece)
		taken := f.Mode == Add && (hasEncodedName(query, name) || isAdded(added, name))
		if piece != "" && f.allows(name) && !taken {
			pairs.add(piece)
		}
	}
	b.WriteString(fragment)
	return b.String()
}

// writeOwnQuery writes the destination's own query, without the parameters that the visitor's
// replace.
func (f *Forwarding) writeOwnQuery(pairs *queryWriter, query, rawQuery string) {
	if query == "" {
		return
	}
	if f.Mode != Replace || !f.replacesAny(query, rawQuery) {
		pairs.b.WriteString(query)
		pairs.separator = '&'
		if query == "?" || strings.HasSuffix(query, "&") {
			pairs.separator = 0
		}
		return
	}
	for piece := range strings.SplitSeq(query[1:], "&") {
		if piece != "" && !f.forwardsSame(rawQuery, nameOf(piece)) {
			pairs.next()
			pairs.b.WriteString(piece)
		}
	}
}

// replacesAny reports whether the visitor's query replaces a parameter of the destination's query.
func (f *Forwarding) replacesAny(query, rawQuery string) bool {
	for piece := range strings.SplitSeq(query[1:], "&") {
		if piece != "" && f.forwardsSame(rawQuery, nameOf(piece)) {
			return true
		}
	}
	return false
}

// allows reports whether parameters of the encoded name are forwarded.
func (f *Forwarding) allows(name string) bool {
	return (len(f.Only) == 0 || isListed(f.Only, name)) && !isListed(f.Except, name)
}

// isListed reports whether a list of decoded names has the encoded name.
func isListed(names []string, encoded string) bool {
	for _, name := range names {
		if equalsDecoded(encoded, name) {
			return true
		}
	}
	return false
}

// forwards reports whether the visitor's query has a forwarded parameter of the decoded name.
func (f *Forwarding) forwards(rawQuery, name string) bool {
	for piece := range strings.SplitSeq(rawQuery, "&") {
		if n := nameOf(piece); piece != "" && f.allows(n) && equalsDecoded(n, name) {
			return true
		}
	}
	return false
}

// forwardsSame is forwards for an encoded name.
func (f *Forwarding) forwardsSame(rawQuery, name string) bool {
	for piece := range strings.SplitSeq(rawQuery, "&") {
		if n := nameOf(piece); piece != "" && f.allows(n) && equalEncoded(n, name) {
			return true
		}
	}
	return false
}

// queryWriter writes parameters, each after a separator; zero means that the query ends with one
// already.
type queryWriter struct {
	b         *strings.Builder
	separator byte
}

func (p *queryWriter) next() {
	if p.separator != 0 {
		p.b.WriteByte(p.separator)
	}
	p.separator = '&'
}

func (p *queryWriter) add(piece string) {
	p.next()
	writeSafe(p.b, piece, "#")
}

func (p *queryWriter) addDecoded(added Parameter) {
	p.next()
	p.b.WriteString(added.Name)
	p.b.WriteByte('=')
	writeSafe(p.b, added.Value, "%&#+=;")
}

// writeSafe writes printable ASCII as it is, and percent-encodes all other bytes and those in also.
func writeSafe(b *strings.Builder, text, also string) {
	const digits = "0123456789ABCDEF"
	for i := range len(text) {
		if c := text[i]; c > ' ' && c < 0x7f && strings.IndexByte(also, c) < 0 {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
}

// appendPath writes the path after the code behind that of the destination, with one slash between.
func appendPath(b *strings.Builder, base, path string) {
	if path == "" {
		return
	}
	if strings.HasSuffix(base, "/") && strings.Count(base, "/") > 2 {
		path = path[1:]
	}
	writeSafe(b, path, `?#`)
}

// PathAllowed reports whether the path after a code, with its leading slash and still encoded, may
// be forwarded: no segment but the last one is empty, none is "." or "..", and none has a backslash
// or a control character, in any encoding. An encoded slash separates segments too, for servers
// that decode it.
func PathAllowed(path string) bool {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return false
	}
	if rest == "" {
		return true
	}
	for segment := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), "/") {
		if !segmentAllowed(segment) {
			return false
		}
	}
	return true
}

// maxEncodings is how often a segment is decoded at most: a server behind the destination may
// decode again what another has decoded.
const maxEncodings = 4

func segmentAllowed(segment string) bool {
	for range maxEncodings {
		if strings.ContainsFunc(segment, func(c rune) bool { return unicode.IsControl(c) || c == '\\' }) {
			return false
		}
		for part := range strings.SplitSeq(segment, "/") {
			if part == "" || part == "." || part == ".." {
				return false
			}
		}
		decoded := decodePath(segment)
		if decoded == segment {
			return true
		}
		segment = decoded
	}
	return false
}

// decodePath replaces percent-encoded bytes once. Other bytes stay.
func decodePath(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if c, ok := encodedByte(s[i:]); ok {
			b = append(b, c)
			i += 2
		} else {
			b = append(b, s[i])
		}
	}
	return string(b)
}

// cutBefore divides s before the first separator, which begins the second part.
func cutBefore(s string, separator byte) (before, rest string) {
	if i := strings.IndexByte(s, separator); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// nameOf returns the encoded name of a parameter.
func nameOf(piece string) string {
	name, _, _ := strings.Cut(piece, "=")
	return name
}

// hasDecodedName reports whether a query, with its question mark, has a parameter of the decoded
// name.
func hasDecodedName(query, name string) bool {
	for piece := range strings.SplitSeq(strings.TrimPrefix(query, "?"), "&") {
		if piece != "" && equalsDecoded(nameOf(piece), name) {
			return true
		}
	}
	return false
}

// hasEncodedName is hasDecodedName for an encoded name.
func hasEncodedName(query, name string) bool {
	for piece := range strings.SplitSeq(strings.TrimPrefix(query, "?"), "&") {
		if piece != "" && equalEncoded(nameOf(piece), name) {
			return true
		}
	}
	return false
}

func isAdded(added []Parameter, name string) bool {
	for _, p := range added {
		if equalsDecoded(name, p.Name) {
			return true
		}
	}
	return false
}

// equalsDecoded reports whether an encoded name is the decoded one, which is validate.Normal.
func equalsDecoded(encoded, decoded string) bool {
	rest := encoded
	for i := range len(decoded) {
		if len(rest) == 0 {
			return false
		}
		c, n := nextByte(rest)
		if c != decoded[i] {
			return max(c, decoded[i]) >= utf8.RuneSelf && validate.Normal(decode(encoded)) == decoded
		}
		rest = rest[n:]
	}
	return rest == ""
}

func decode(encoded string) string {
	decoded := make([]byte, 0, len(encoded))
	for len(encoded) > 0 {
		c, n := nextByte(encoded)
		decoded, encoded = append(decoded, c), encoded[n:]
	}
	return string(decoded)
}

// equalEncoded reports whether two encoded names are equal when they are decoded.
func equalEncoded(a, b string) bool {
	for len(a) > 0 && len(b) > 0 {
		x, n := nextByte(a)
		y, m := nextByte(b)
		if x != y {
			return false
		}
		a, b = a[n:], b[m:]
	}
	return a == b // both are empty
}

// nextByte decodes the first byte of a form-encoded text, and returns how many bytes it takes.
func nextByte(s string) (c byte, length int) {
	if s[0] == '+' {
		return ' ', 1
	}
	if c, ok := encodedByte(s); ok {
		return c, 3
	}
	return s[0], 1
}

// encodedByte decodes a percent-encoded byte at the start of a text.
func encodedByte(s string) (c byte, ok bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	high, ok1 := digit(s[1])
	low, ok2 := digit(s[2])
	return high<<4 | low, ok1 && ok2
}

func digit(c byte) (n byte, ok bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}
