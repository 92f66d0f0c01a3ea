package web

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestNewPage_HasUsedTokens: its policy is that of the style and the script that browsers receive.
func TestNewPage_HasUsedTokens(t *testing.T) {
	t.Parallel()
	p := NewPage("b { color: var(--bad); }\n/* no */ i { color: var(--good); }",
		`{{define "content"}}{{template "bold" .}}<script>let a = "<b>"</script>{{end}}`,
		`{{define "bold"}}<b>{{.Title}}</b>{{end}}`)
	var b strings.Builder
	must.NoError(t, p.Execute(&b, map[string]string{"Language": "pt", "Title": "<Olá>"}))
	page := b.String()
	style := between(page, "<style>", "</style>")
	for _, want := range []string{
		`<html lang="pt">`, "<title>&lt;Olá&gt;</title>", "<b>&lt;Olá&gt;</b>", "--bad: light-dark(",
		"} b { color: var(--bad); } i { color: var(--good); }</style>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is missing from %s", want, page)
		}
	}
	if strings.Contains(style, "--warn") {
		t.Errorf("the style has a token that it does not use: %s", style)
	}
	want := "default-src 'none'; style-src '" + cspHash(style) + "'; base-uri 'none'; frame-ancestors 'none'; " +
		"script-src '" + cspHash(between(page, "<script>", "</script>")) + "'"
	if p.Policy != want {
		t.Errorf("the policy is %s, want %s", p.Policy, want)
	}
}

func between(text, start, end string) string {
	_, text, _ = strings.Cut(text, start)
	text, _, _ = strings.Cut(text, end)
	return text
}

// TestStyles_UseTokens: the pages have no colour, radius or type of their own, and load nothing.
func TestStyles_UseTokens(t *testing.T) {
	t.Parallel()
	own := regexp.MustCompile(`url\(|@import|#[0-9a-f]{3}|light-dark|(?:rgb|hsl|lab|lch)a?\(|` +
		`(?:radius|font|font-size|font-family): (?:[^vic]|clamp\([^v]).*`)
	files := must.Value(filepath.Glob("../../*/*/*.css"))(t)
	for _, file := range files {
		if filepath.Base(file) == "tokens.css" {
			continue
		}
		css := string(must.Value(os.ReadFile(file))(t))
		if found := own.FindString(css); found != "" {
			t.Errorf("%s has %q", file, found)
		}
		for _, use := range regexp.MustCompile(`var\((--[\w-]+)\)`).FindAllStringSubmatch(css, -1) {
			if !strings.Contains(tokens, use[1]+": ") {
				t.Errorf("%s uses %s", file, use[1])
			}
		}
	}
	if len(files) != 4 {
		t.Errorf("files of styles: %v", files)
	}
}

// TestTokens_HaveEnoughContrast checks both schemes against WCAG AA: 4.5 to 1 for text, 3 to 1 for
// graphics.
func TestTokens_HaveEnoughContrast(t *testing.T) {
	t.Parallel()
	colours := regexp.MustCompile(`--([\w-]+): light-dark\(#(\w+), #(\w+)\);`).FindAllStringSubmatch(tokens, -1)
	for scheme, name := range []string{"light", "dark"} {
		palette := map[string]float64{}
		for _, m := range colours {
			palette[m[1]] = luminance(t, m[2+scheme])
		}
		for _, want := range []struct {
			on, of string
			ratio  float64
		}{
			{"ground raised sunken", "ink ink-soft accent good warn bad", 4.5}, {"hover", "ink ink-soft bad", 4.5},
			{"accent accent-hover", "on-accent", 4.5}, {"accent-wash", "ink accent", 4.5},
			{"ground raised", "line-strong", 3},
		} {
			for _, on := range strings.Fields(want.on) {
				for _, of := range strings.Fields(want.of) {
					a, b := palette[on], palette[of]
					if got := (max(a, b) + .05) / (min(a, b) + .05); got < want.ratio {
						t.Errorf("%s: %s on %s has a contrast of %.2f, want %v", name, of, on, got, want.ratio)
					}
				}
			}
		}
	}
}

// luminance is the relative luminance of WCAG 2 of a colour in hexadecimal digits, three or six.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = regexp.MustCompile(".").ReplaceAllString(hex, "$0$0")
	}
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
