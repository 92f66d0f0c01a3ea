package qr

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// The limits of styles. Sizes are in pixels, margins in modules.
const (
	minSize     = 128
	maxSize     = 2048
	minMargin   = 4 // the quiet zone of ISO/IEC 18004
	maxMargin   = 16
	minContrast = 3
)

// Style is how codes look. It is stored as JSON.
type Style struct {
	// Size is the width of PNG images in pixels, Margin in modules.
	Size   int   `json:"size"`
	Margin int   `json:"margin"`
	Level  Level `json:"level"`
	// Foreground is the color of the modules, Background the color behind them: #1a2b3c.
	Foreground string `json:"foreground"`
	Background string `json:"background"`
	// LogoHash is the hash of Logo, a PNG or JPEG image over the middle; empty means none. The logo
	// itself is stored apart: see WithLogo.
	LogoHash string `json:"logoHash,omitempty"`
	Logo     []byte `json:"-"`
}

// Default returns the style of workspaces that have set none.
func Default() Style {
	return Style{Size: 512, Margin: minMargin, Level: Medium, Foreground: "#000000", Background: "#ffffff"}
}

// HasLogo reports whether a logo covers the middle.
func (s *Style) HasLogo() bool { return s.LogoHash != "" }

// WithLogo returns the style with a logo that checkLogo has accepted; an empty one means none.
func (s Style) WithLogo(logo []byte) Style {
	s.Logo, s.LogoHash = logo, ""
	if len(logo) > 0 {
		hash := sha256.Sum256(logo)
		s.LogoHash = hex.EncodeToString(hash[:])
	}
	return s
}

// Equal reports whether two styles are the same. Nil is the default.
func (s *Style) Equal(other *Style) bool {
	a, b := OrDefault(s), OrDefault(other)
	a.Logo, b.Logo = nil, nil
	return reflect.DeepEqual(a, b)
}

// OrDefault returns the style; the default for nil.
func OrDefault(s *Style) Style {
	if s == nil {
		return Default()
	}
	return *s
}

// Change is a change of a style with its logo. Fields without Set stay; nil resets a field to its
// default.
type Change struct {
	Size       optional.Edit[*int]
	Margin     optional.Edit[*int]
	Level      optional.Edit[*Level]
	Foreground optional.Edit[*string]
	Background optional.Edit[*string]
	// Logo is in base64.
	Logo optional.Edit[*string]
}

// Apply returns a style after the change. It returns InvalidInput that names the field. Whether the
// logo can be decoded, and codes in the style can be read, is for Verify.
func (c *Change) Apply(from Style) (Style, error) {
	to, standard := from, Default()
	apply(c.Size, &to.Size, standard.Size)
	apply(c.Margin, &to.Margin, standard.Margin)
	apply(c.Level, &to.Level, standard.Level)
	apply(c.Foreground, &to.Foreground, standard.Foreground)
	apply(c.Background, &to.Background, standard.Background)
	var logoErr error
	if c.Logo.Set {
		var logo []byte
		logo, logoErr = decodeLogo(optional.Value(c.Logo.To))
		to = to.WithLogo(logo)
	}
	return to, errs.All(to.check(), errs.At(logoErr, "logo"))
}

func apply[T any](edit optional.Edit[*T], value *T, standard T) {
	if edit.Set {
		*value = optional.Or(edit.To, standard)
	}
}

// check validates a style and writes its colors in lower case.
func (s *Style) check() error {
	s.Foreground, s.Background = strings.ToLower(s.Foreground), strings.ToLower(s.Background)
	var checks []error
	refuse := func(isWrong bool, field, format string, args ...any) {
		if isWrong {
			checks = append(checks, errs.New(errs.InvalidInput, format, args...).At(field))
		}
	}
	refuse(s.Size < minSize || s.Size > maxSize, "size", "size must be from %d to %d pixels.", minSize, maxSize)
	refuse(s.Margin < minMargin || s.Margin > maxMargin, "margin", "margin must be from %d to %d modules.", minMargin,
		maxMargin)
	refuse(!s.Level.isKnown(), "level", "level must be LOW, MEDIUM, QUARTILE or HIGH.")
	refuse(s.Level.isKnown() && s.HasLogo() && s.Level != High, "level",
		"A logo needs the level HIGH. Set level, or remove the logo with null.")
	refuse(!isColor(s.Foreground), "foreground", "foreground must be a color like #1a2b3c.")
	refuse(!isColor(s.Background), "background", "background must be a color like #ffffff.")
	if isColor(s.Foreground) && isColor(s.Background) {
		checks = append(checks, s.checkContrast())
	}
	return errs.All(checks...)
}

func (l Level) isKnown() bool {
	_, ok := levels[l]
	return ok
}

// checkContrast refuses colors that cameras do not distinguish.
func (s *Style) checkContrast() error {
	foreground, background := luminance(s.Foreground), luminance(s.Background)
	contrast := (background + 0.05) / (foreground + 0.05)
	switch {
	case contrast < 1:
		return errs.New(errs.InvalidInput,
			"foreground must be darker than background: many readers cannot read inverted "+
				"codes. Exchange the colors.").At("foreground")
	case contrast < minContrast:
		return errs.New(errs.InvalidInput, "The contrast of foreground and background must be at least %d; it is %s. "+
			"Choose a darker foreground or a lighter background.",
			minContrast, strconv.FormatFloat(math.Floor(contrast*10)/10, 'f', 1, 64)).At("foreground")
	}
	return nil
}

// rgb returns the parts of a color that isColor accepts.
func rgb(color string) [3]byte {
	n, _ := strconv.ParseUint(color[1:], 16, 32)
	return [3]byte{byte(n >> 16), byte(n >> 8), byte(n)}
}

func isColor(s string) bool {
	return len(s) == len("#000000") && s[0] == '#' && strings.Trim(s[1:], "0123456789abcdef") == ""
}

// luminance is the relative luminance of a color, from 0 to 1
// (https://www.w3.org/TR/WCAG22/#dfn-relative-luminance).
func luminance(color string) float64 {
	var linear [3]float64
	for i, part := range rgb(color) {
		linear[i] = float64(part) / math.MaxUint8
		if linear[i] <= 0.04045 {
			linear[i] /= 12.92
		} else {
			linear[i] = math.Pow((linear[i]+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*linear[0] + 0.7152*linear[1] + 0.0722*linear[2]
}

// VerifiedSize is the width in pixels at which Verify reads codes.
const VerifiedSize = 256

// Verify renders the code of a text in the style, and reads it. It returns InvalidInput if the logo
// is damaged, or if the text is not read back.
func (s *Style) Verify(text string) error {
	c, err := New(text, s)
	if err != nil {
		return err
	}
	return c.verify()
}

func (c *Code) verify() error {
	img, err := c.image(VerifiedSize)
	if err != nil {
		return err
	}
	if got, err := decode(img); err != nil || got != c.text {
		return errs.New(errs.InvalidInput,
			"A code of %d characters in this style cannot be read at a width of %d pixels. "+
				"Use a smaller margin, a lower level or no logo.", len(c.text), VerifiedSize).
			Because(fmt.Errorf("decoding a QR code: %w", err))
	}
	return nil
}
