package sso

import (
	"context"
	"errors"
	"log/slog"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// fault is a check that failed. Its attributes are logged: no token, code or secret may be among
// them.
type fault struct {
	check      string
	outage     bool
	attributes []any
}

func (f *fault) Error() string { return "single sign-on: " + f.check }

// refusal returns the fault of a response or a token that is not accepted.
func refusal(check string, attributes ...any) error {
	return &fault{check: check, attributes: attributes}
}

// outage returns the fault of a provider that does not respond as it should.
func outage(check string, attributes ...any) error {
	return &fault{check: check, outage: true, attributes: attributes}
}

// Refuse logs the check that a caller has made, such as that of the transaction, and returns
// BadCredentials as Identify does.
func (p *Provider) Refuse(ctx context.Context, check string) error {
	return p.report(ctx, refusal(check))
}

// report logs a fault, and returns the error for the user.
func (p *Provider) report(ctx context.Context, err error) error {
	f, ok := errors.AsType[*fault](err)
	if !ok {
		return err // the caller has left
	}
	if f.outage {
		return p.unavailable(ctx, err)
	}
	p.log(ctx, slog.LevelWarn, "single sign-on refused", f)
	return errs.New(errs.BadCredentials, "The log-in at the provider failed, or is too old. Start again.")
}

// unavailable is report for a call that presents no credentials.
func (p *Provider) unavailable(ctx context.Context, err error) error {
	f, ok := errors.AsType[*fault](err)
	if !ok {
		return err
	}
	p.log(ctx, slog.LevelError, "single sign-on is unavailable", f)
	return errs.New(errs.Unavailable, "The provider of single sign-on is unavailable. Start again in a moment.")
}

func (p *Provider) log(ctx context.Context, level slog.Level, message string, f *fault) {
	p.config.Log.Log(ctx, level, message, append([]any{"check", f.check}, f.attributes...)...)
}
