package urlnorm

import (
	"slices"
	"strings"
)

// appendQuery appends the canonical form of a query with its question mark, or nothing when no
// piece of it is left (R5, R6, R10, R11).
func appendQuery(b []byte, query string) []byte {
	if query == "" {
		return b
	}
	separator := byte('?')
	for _, piece := range sortedPieces(query) {
		b = append(b, separator)
		b = append(b, piece...)
		separator = '&'
	}
	return b
}

// sortedPieces encodes the query, and returns the parts between its ampersands, by key. Encoding
// the whole query at once is sound: it neither adds nor removes an ampersand or an equals sign. A
// slash is not encoded, by RFC 3986.
func sortedPieces(query string) []string {
	encoded := string(appendEncoded(make([]byte, 0, len(query)+16), query, "/?"))
	pieces := strings.Split(encoded, "&")
	pieces = slices.DeleteFunc(pieces, func(piece string) bool { return piece == "" })
	// Stable: servers read duplicate keys in order.
	slices.SortStableFunc(pieces, func(a, b string) int { return strings.Compare(key(a), key(b)) })
	return pieces
}

func key(piece string) string {
	key, _, _ := strings.Cut(piece, "=")
	return key
}
