package link

import (
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/qr"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/workspace"
)

// QRText returns what a QR code of the link encodes: its short URL, with a source that its routing declares; an
// empty source means none. It returns InvalidInput.
func (s *Store) QRText(l *Link, source string) (string, error) {
	if source != "" && (l.Routing == nil || !slices.Contains(l.Routing.QRSources, source)) {
		return "", errs.New(errs.InvalidInput, "The link does not declare this source. Add it to routing.qrSources.").
			At("source")
	}
	return routing.WithSource(s.ShortURL(l), source), nil
}

// QRImageURL returns the public address of an image of a link's QR code.
func QRImageURL(shortURL string, format qr.Format, source string) string {
	return routing.WithSource(shortURL+"."+string(format), source)
}

// QRTexts returns the shortest and the longest text that a QR code of a link in the workspace encodes.
func (s *Store) QRTexts(m workspace.Membership) []string {
	shortest := &Link{In: m, Code: strings.Repeat("a", shortcode.MinLength)}
	shortest.RootCode = &shortest.Code
	longest := &Link{In: m, Code: strings.Repeat("a", shortcode.MaxLength)}
	return []string{
		s.ShortURL(shortest), routing.WithSource(s.ShortURL(longest), strings.Repeat("a", routing.MaxSource)),
	}
}
