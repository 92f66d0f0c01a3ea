package web

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"regexp"
	"strings"
)

// The pages that the server renders for people have one layout, whose view has the fields Language
// and Title. The console imports tokens.css, too.
var (
	//go:embed layout.html
	layout string
	//go:embed page.css
	pageStyle string
	//go:embed tokens.css
	tokens string
)

var (
	cssComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	cssToken   = regexp.MustCompile(`(--[\w-]+): [^;]+;`)
)

// Page is a template of a whole page.
type Page struct {
	*template.Template
	// Policy is a Content-Security-Policy that lets the page have its own style and script and nothing
	// else. It has no form-action.
	Policy string
}

// NewPage returns a page with a style of its own. The first content defines the template "content";
// only it may have a script, without comments, which a template would remove.
func NewPage(style string, contents ...string) Page {
	style = pageStyle + style
	used := cssToken.ReplaceAllStringFunc(tokens, func(declaration string) string {
		name, _, _ := strings.Cut(declaration, ":")
		if strings.Contains(style, "var("+name+")") {
			return declaration
		}
		return ""
	})
	style = strings.Join(strings.Fields(cssComment.ReplaceAllString(used+style, "")), " ")
	p := Page{
		Template: template.Must(template.New("layout").Parse(strings.Replace(layout, "<style>", "<style>"+style, 1))),
		Policy:   "default-src 'none'; style-src '" + cspHash(style) + "'; base-uri 'none'; frame-ancestors 'none'",
	}
	for _, content := range contents {
		template.Must(p.Parse(content))
	}
	if _, rest, ok := strings.Cut(contents[0], "<script>"); ok {
		script, _, _ := strings.Cut(rest, "</script>")
		p.Policy += "; script-src '" + cspHash(script) + "'"
	}
	return p
}

// cspHash identifies an inline style or script in a Content-Security-Policy.
func cspHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
