package routing

import (
	"strings"
)

// MaxSource is the length of the longest name of a QR code.
const MaxSource = 32

// SourceParameter is the query parameter of the short URL that names a QR code.
const SourceParameter = "qr"

// WithSource returns the short URL that a QR code encodes.
func WithSource(shortURL, source string) string {
	if source == "" {
		return shortURL
	}
	return shortURL + "?" + SourceParameter + "=" + source
}

// splitSource returns the first declared name of a QR code in the visitor's query, and what of the
// query may be forwarded: everything but declared names.
func splitSource(declared FlatReader, query string) (source, rest string) {
	if len(declared) == 0 || query == "" {
		return "", query
	}
	var others []string
	for piece := range strings.SplitSeq(query, "&") {
		switch name := sourceIn(piece, declared); {
		case name == "":
			others = append(others, piece)
		case source == "":
			source = name
		}
	}
	if source == "" {
		return "", query
	}
	return source, strings.Join(others, "&")
}

// sourceIn returns the declared name of a QR code in a parameter, as in qr=flyer; empty if there is
// none.
func sourceIn(piece string, declared FlatReader) string {
	name, value, _ := strings.Cut(piece, "=")
	if !equalsDecoded(name, SourceParameter) {
		return ""
	}
	for len(declared) > 0 {
		if source := declared.Text(); equalsDecoded(value, source) {
			return source
		}
	}
	return ""
}
