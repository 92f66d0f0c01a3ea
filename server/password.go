package main

import (
	"net/http"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/visit/visitorpage"
)

// maxPasswordForm bounds the form of a password of 1,024 bytes, percent-encoded.
const maxPasswordForm = 8 << 10

// passwordForm answers with the form that sets a password. Its token is in the fragment of the URL.
func (a *app) passwordForm(w http.ResponseWriter, r *http.Request) {
	visitorpage.WritePasswordForm(w, r, http.StatusOK, visitorpage.PasswordForm{})
}

// setPassword sets the password of a form. A page of another origin cannot send it.
func (a *app) setPassword(w http.ResponseWriter, r *http.Request) {
	web.LimitBody(w, r, maxPasswordForm)
	f := visitorpage.PasswordForm{Token: r.PostFormValue("token")}
	password, ctx := r.PostFormValue("password"), r.Context()
	var err error
	if !a.origins().Allow(r) || !web.IsUTF8(r) {
		err = errs.New(errs.InvalidInput, "The form must be sent by this page, in UTF-8.")
	} else {
		from := account.Client{Address: web.AddressOf(ctx), Agent: web.AgentOf(ctx)}
		_, err = a.Accounts.ResetPassword(ctx, f.Token, password, account.ProofOfCode(r.PostFormValue("code")), from)
	}
	if err == nil {
		visitorpage.WriteEnglish(w, r, http.StatusOK, "The password is set", "You can log in with it now.")
		return
	}
	e := errs.From(err)
	if e.Kind == errs.Internal || e.Kind == errs.Unavailable {
		a.log.Log(ctx, errs.LogLevel(err), "setting a password failed", "error", err)
	}
	f.Error = e.Public()
	web.SetRetryAfter(w, e.Retry())
	visitorpage.WritePasswordForm(w, r, e.Kind.Status(), f)
}
