package main

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/console"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/visit/visitorpage"
)

// maxTokenForm bounds a form with a password of 1,024 bytes and a name, percent-encoded.
const maxTokenForm = 12 << 10

// mailedPage is a page that mail leads to. Its form spends the token of the mail.
type mailedPage struct {
	visitorpage.TokenForm
	app *app
	// spend returns the title and the text of the page that says what has been done.
	spend func(
		ctx context.Context, r *http.Request, token string, from account.Client,
	) (title, text string, err error)
}

var codeField = visitorpage.Field{Name: "code", Type: "text", Autocomplete: "one-time-code",
	Label: "Code of your authenticator app, or a recovery code, if your account has one"}

func (a *app) passwordPage() mailedPage {
	return mailedPage{visitorpage.TokenForm{
		Title: "Set a password", Text: "Choose a password for your account.", Button: "Set the password",
		Mutation: "resetPassword",
		Fields: []visitorpage.Field{
			{Name: "password", Label: "New password", Type: "password", Autocomplete: "new-password", Required: true},
			codeField,
		},
	}, a, a.setPassword}
}

func (a *app) verifyPage() mailedPage {
	return mailedPage{visitorpage.TokenForm{
		Title: "Confirm your address", Button: "Confirm the address", Mutation: "verifyEmail",
		Text: "Confirm that you read the mail of this address, and that the account is yours.",
	}, a, a.verifyEmail}
}

func (a *app) invitationPage() mailedPage {
	return mailedPage{visitorpage.TokenForm{
		Title: "Join a workspace", Button: "Accept the invitation", Mutation: "acceptInvitation",
		Text: "Enter the password of your account with the invited address, or a name and a password for a new one.",
		Fields: []visitorpage.Field{
			{Name: "name", Label: "Your name, for a new account", Type: "text", Autocomplete: "name"},
			{Name: "password", Label: "Password", Type: "password", Autocomplete: "current-password", Required: true},
			codeField,
		},
	}, a, a.acceptInvitation}
}

// show answers with the form. Its token is in the fragment of the URL.
func (p mailedPage) show(w http.ResponseWriter, r *http.Request) {
	visitorpage.WriteTokenForm(w, r, http.StatusOK, p.TokenForm)
}

// take takes the form. A page of another origin cannot send it.
func (p mailedPage) take(w http.ResponseWriter, r *http.Request) {
	web.LimitBody(w, r, maxTokenForm)
	f, ctx := p.TokenForm, r.Context()
	f.Token = strings.TrimSpace(r.PostFormValue("token"))
	title, text, err := "", "", error(errs.New(errs.InvalidInput, "The form must be sent by this page, in UTF-8."))
	if p.app.origins().Allow(r) && web.IsUTF8(r) {
		from := account.Client{Address: web.AddressOf(ctx), Agent: web.AgentOf(ctx)}
		title, text, err = p.spend(ctx, r, f.Token, from)
	}
	if err == nil {
		visitorpage.WriteDone(w, r, title, text, p.app.frontEnd())
		return
	}
	e := errs.From(err)
	if e.Kind == errs.Internal || e.Kind == errs.Unavailable {
		p.app.log.Log(ctx, errs.LogLevel(err), "a mailed page failed", "path", r.URL.Path, "error", err)
	}
	f.Error, f.Fields = e.Public(), slices.Clone(f.Fields)
	for i, field := range f.Fields {
		if field.Type == "text" {
			f.Fields[i].Value = r.PostFormValue(field.Name)
		}
	}
	web.SetRetryAfter(w, e.Retry())
	visitorpage.WriteTokenForm(w, r, e.Kind.Status(), f)
}

// frontEnd returns where users go on: the first front end of LINKFORGE_ORIGINS, or else the console.
// It is empty if there is neither.
func (a *app) frontEnd() string {
	for _, origin := range a.config.Origins {
		if strings.HasPrefix(origin, "http") {
			return origin
		}
	}
	if a.config.Console {
		return a.config.PublicURL + console.Path
	}
	return ""
}

func (a *app) setPassword(
	ctx context.Context, r *http.Request, token string, from account.Client,
) (title, text string, err error) {
	_, err = a.Accounts.ResetPassword(ctx, token, r.PostFormValue("password"),
		account.ProofOfCode(r.PostFormValue("code")), from)
	return "The password is set", "You can log in with it now.", err
}

func (a *app) verifyEmail(
	ctx context.Context, _ *http.Request, token string, _ account.Client,
) (title, text string, err error) {
	_, err = a.Accounts.VerifyEmail(ctx, token)
	return "The address is confirmed", "It is the address of your account.", err
}

// acceptInvitation registers a user with the invited address, or logs in the one who has it, for as
// long as it takes to accept the invitation.
func (a *app) acceptInvitation(
	ctx context.Context, r *http.Request, token string, from account.Client,
) (title, text string, err error) {
	title, text = "You are a member", "You can log in and use the workspace now."
	password, name := r.PostFormValue("password"), strings.TrimSpace(r.PostFormValue("name"))
	email, err := a.Workspaces.InvitedAddress(ctx, token)
	if err != nil {
		return "", "", err
	}
	if name != "" {
		_, err = a.Accounts.Register(ctx, email, password, name, from, a.Workspaces.Presented(token))
		if !errs.Is(err, errs.EmailTaken) {
			return title, text, err
		}
	}
	login, err := a.Accounts.Login(ctx, email, password, from)
	if errs.Is(err, errs.BadCredentials) {
		err = errs.New(errs.BadCredentials,
			"This is not the password of the invited address. For a new account, enter your name as well.")
	}
	if err == nil && login.Challenge != nil {
		factor := account.ProofOfCode(r.PostFormValue("code"))
		login, err = a.Accounts.CompleteLogin(ctx, login.Challenge.Token, factor, from)
	}
	if err != nil {
		return "", "", err
	}
	ctx, err = a.Accounts.Authenticate(ctx, "Bearer "+login.Token)
	if err != nil {
		return "", "", err
	}
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return "", "", err
	}
	// The session ends by itself, too.
	defer func() { _ = a.Accounts.Logout(context.WithoutCancel(ctx), actor, actor.SessionID) }()
	_, err = a.Workspaces.Accept(ctx, actor, token)
	return title, text, err
}
