package visitorpage

import (
	_ "embed"
	"net/http"
)

//go:embed password.html
var passwordContent string

var passwordTemplate = parse(passwordContent)

// policyOfPassword lets the page read the token in the fragment of its URL, and send the form to
// this host.
var policyOfPassword = policyWithForm + "; form-action 'self'; script-src '" +
	hashOf(passwordContent, "<script>", "</script>") + "'"

// PasswordForm is the form that sets the password of a user.
type PasswordForm struct {
	// Token is that of the link; empty if only the fragment of the URL has it.
	Token string
	// Error says why a password was refused; empty before the first one.
	Error string
}

// WritePasswordForm answers with the form, in English.
func WritePasswordForm(w http.ResponseWriter, r *http.Request, status int, f PasswordForm) {
	p := page{
		status: status, template: passwordTemplate, policy: policyOfPassword, isForm: true,
		plain: "Open this page in a browser, or call the mutation resetPassword.\n",
		view: struct {
			Language
			PasswordForm
			Title string
		}{english, f, "Set a password"},
	}
	if f.Error != "" {
		p.plain = f.Error + "\n"
	}
	p.write(w, r)
}
