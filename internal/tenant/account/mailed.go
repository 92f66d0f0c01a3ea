package account

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
)

const (
	// mailedPrefix identifies mailed tokens to users and secret scanners.
	mailedPrefix = "mailed_"
	// minResetDuration is the minimum duration of RequestPasswordReset, which hides whether a token
	// was stored.
	minResetDuration = 250 * time.Millisecond
)

// Unknown e-mail addresses count like known ones.
var (
	verificationsPerAccount = ratelimit.Rate{Name: "verification-account", Attempts: 5, Window: time.Hour}
	requestsPerEmail        = ratelimit.Rate{Name: "reset-email", Attempts: 3, Window: time.Hour}
	requestsPerAddress      = ratelimit.Rate{Name: "reset-address", Attempts: 20, Window: time.Hour}
	// resetsPerAddress bounds the hashing; tokens themselves are too long to be guessed.
	resetsPerAddress = ratelimit.Rate{Name: "reset-token-address", Attempts: 100, Window: time.Hour}
)

// The paths of the pages that mail leads to. The token is in the fragment of their URLs, which no
// server receives or logs. The server has their handlers.
const (
	PasswordPage = "/password" // sets a password
	VerifyPage   = "/verify"   // verifies an address
)

// purpose is the use of a mailed token.
type purpose struct {
	kind string // of the flow
	page string // that spends it
	life time.Duration
	// subject and request are texts of the message.
	subject, request string
}

// The messages contain no user-supplied text, such as a name: their addresses are not verified.
var (
	verifyEmail = purpose{
		kind: kindVerifyEmail, page: VerifyPage, life: 24 * time.Hour, subject: "Confirm your e-mail address",
		request: "An account on %s was made with this e-mail address. To confirm that it is yours, open this page:",
	}
	changeEmail = purpose{
		kind: kindChangeEmail, page: VerifyPage, life: 24 * time.Hour, subject: "Confirm your new e-mail address",
		request: "An account on %s is to have this e-mail address. To confirm that it is yours, open this page:",
	}
	resetPassword = purpose{
		kind: kindResetPassword, page: PasswordPage, life: time.Hour, subject: "Choose a new password",
		request: "Somebody wants to choose a new password for your account on %s. If that is you, open this page:",
	}
)

// mailed is a token before it is sent.
type mailed struct {
	purpose purpose
	token   string
	expires time.Time
}

// RequestVerification mails the actor a token that verifies their address, unless it is verified.
// It returns InvalidInput for another address, RateLimited or Unauthenticated.
func (s *Store) RequestVerification(ctx context.Context, a Actor, email string) error {
	account, err := s.Enabled(ctx, a.AccountID)
	if err != nil {
		return err
	}
	if fold(email) != account.Email {
		return errs.New(errs.InvalidInput, "This is not the address of your account.").At("email")
	}
	if account.EmailVerified() {
		return nil
	}
	if err := s.Limits.Charge(ctx, verificationsPerAccount, account.ID); err != nil {
		return err
	}
	verification, err := s.newMailed(ctx, s.DB, account.ID, "", verifyEmail)
	if err != nil {
		return fmt.Errorf("storing a verification: %w", err)
	}
	s.mail(ctx, account.Email, verification)
	return nil
}

// setVerified marks the account's address as verified and, if hash is not nil, replaces the
// password. It returns sql.ErrNoRows if the account was deleted.
func (s *Store) setVerified(ctx context.Context, tx bun.Tx, accountID string, hash *string) (*Account, error) {
	return s.updateAccount(ctx, tx, accountID,
		"email_verified_at = COALESCE(email_verified_at, ?), password_hash = COALESCE(?, password_hash)", s.now(), hash)
}

// newMailed stores a token if the account exists and is enabled.
func (s *Store) newMailed(ctx context.Context, conn bun.IDB, accountID, data string, p purpose) (mailed, error) {
	m := mailed{purpose: p, token: mailedPrefix + rand.Text(), expires: s.now().Add(p.life)}
	return m, s.newFlow(ctx, conn, m.token, flow{Kind: p.kind, AccountID: accountID, Data: data, ExpiresAt: m.expires})
}

func (s *Store) sendsMail() bool { return s.Mail != nil && s.Mail.Configured() }

// mail sends the token to an address.
func (s *Store) mail(ctx context.Context, email string, m mailed) {
	if s.Mail == nil || !receivesMail(email) {
		return
	}
	s.Mail.Send(ctx, email, m.purpose.subject, fmt.Sprintf(m.purpose.request+
		"\n\n%s\n\nIt is good once, until %s. If you do not know what this is about, do nothing.\n",
		s.PublicURL, s.pageOf(m), m.expires.Format("2006-01-02 15:04 MST")))
}

// pageOf returns the URL of the page that spends a token.
func (s *Store) pageOf(m mailed) string { return s.PublicURL + m.purpose.page + "#" + m.token }

func errMailed() error {
	return errs.New(errs.BadCredentials, "The token is invalid or has expired. Request a new one.").At("token")
}
