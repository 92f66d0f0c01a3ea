package visitorpage

import (
	_ "embed"
	"net/http"
)

//go:embed token.html
var tokenContent string

// tokens read the token in the fragment of their URL, and can be sent to this host.
var tokens = newPage(tokenContent, "; form-action 'self'")

// TokenForm is a form that a mail leads to: it sends the token in the fragment of its URL, which no
// server receives before, with what the user has to add.
type TokenForm struct {
	Title, Text, Button string
	// Mutation is the mutation of the API that does the same.
	Mutation string
	Fields   []Field
	// Token is that of the mail; empty if only the fragment of the URL has it.
	Token string
	// Error says why the form was refused; empty before it was sent.
	Error string
}

// Field is a field of a TokenForm. Type and Autocomplete are attributes of HTML.
type Field struct {
	Name, Label, Type, Autocomplete, Value string
	Required                               bool
}

// WriteTokenForm answers with the form, in English.
func WriteTokenForm(w http.ResponseWriter, r *http.Request, status int, f TokenForm) {
	p := page{
		Page: tokens, status: status, isForm: true,
		plain: "Open this page in a browser, or call the mutation " + f.Mutation + ".\n",
		view: struct {
			Language
			TokenForm
		}{english, f},
	}
	if f.Error != "" {
		p.plain = f.Error + "\n"
	}
	p.write(w, r)
}
