package statspage

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

var colour = regexp.MustCompile(`--(\w+): #(\w+);`)

// TestStyle_HasEnoughContrast checks both palettes against WCAG AA: 4.5 to 1 for text, 3 to 1 for
// graphics.
func TestStyle_HasEnoughContrast(t *testing.T) {
	t.Parallel()
	light, rest, _ := strings.Cut(style(pageText), "@media")
	dark, _, _ := strings.Cut(rest, "body {")
	for name, css := range map[string]string{"light": light, "dark": dark, "print": light + "--ground: #ffffff;"} {
		palette := map[string]float64{}
		for _, m := range colour.FindAllStringSubmatch(css, -1) {
			palette[m[1]] = luminance(t, m[2])
		}
		for _, want := range []struct {
			on, of string
			ratio  float64
		}{
			{"ground", "ink", 4.5}, {"ground", "soft", 4.5}, {"ground", "faint", 4.5}, {"ground", "accent", 4.5},
			{"tint", "accent", 3},
		} {
			a, b := palette[want.on], palette[want.of]
			if got := (max(a, b) + .05) / (min(a, b) + .05); got < want.ratio {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want %v", name, want.of, want.on, got, want.ratio)
			}
		}
	}
}

// luminance is the relative luminance of WCAG 2.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	var sum float64
	for i, weight := range []float64{.2126, .7152, .0722} {
		n := must.Value(strconv.ParseUint(hex[2*i:2*i+2], 16, 8))(t)
		if c := float64(n) / 255; c <= .04045 {
			sum += weight * c / 12.92
		} else {
			sum += weight * math.Pow((c+.055)/1.055, 2.4)
		}
	}
	return sum
}
