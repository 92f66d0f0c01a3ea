package account

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

const newPassword = "another good password"

// mailbox is a Mailer that stores the messages.
type mailbox struct {
	off bool

	mu       sync.Mutex
	messages []message
}

type message struct{ to, subject, text string }

// Send implements Mailer.
func (l *mailbox) Send(_ context.Context, to, subject, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, message{to, subject, text})
}

// Configured implements Mailer.
func (l *mailbox) Configured() bool { return !l.off }

var mailedPattern = regexp.MustCompile(`\bmailed_[A-Z2-7]{26}\b`)

// last returns the token in the newest message, which must be the nth.
func (l *mailbox) last(t *testing.T, n int) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.messages) != n {
		t.Fatalf("%d messages, want %d: %q", len(l.messages), n, l.messages)
	}
	return mailedPattern.FindString(l.messages[n-1].text)
}

// setupMail calls setup with a mailbox, and registers an account, whose verification is the first
// message.
func setupMail(t *testing.T, d *db.DB) (b *bundle, box *mailbox, registered Login) {
	t.Helper()
	b, box = setup(t, d, dbtest.Redis(t, "")), &mailbox{}
	b.Mail, b.PublicURL = box, "https://sho.rt"
	return b, box, b.register(t, b.email)
}

// eachMailed runs a test as each does, with the values of setupMail.
func eachMailed(t *testing.T, test func(t *testing.T, b *bundle, box *mailbox, registered Login)) {
	t.Helper()
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		b, box, registered := setupMail(t, d)
		test(t, b, box, registered)
	})
}

// request requests a password reset.
func (b *bundle) request(t *testing.T) {
	t.Helper()
	must.NoError(t, b.RequestPasswordReset(t.Context(), b.email, b.from()))
}

// at returns a function that checks the kind and the field of a call's error, its last result.
func at(t *testing.T, want errs.Kind, field string) func(results ...any) {
	t.Helper()
	return func(results ...any) {
		t.Helper()
		err, _ := results[len(results)-1].(error)
		if !errs.Is(err, want) || !cmp.Equal(errs.From(err).Field, []string{field}) {
			t.Errorf("%v at %v, want %s at %s", err, errs.From(err).Field, want, field)
		}
	}
}

func rows(t *testing.T, d *db.DB, table string) int64 {
	t.Helper()
	return must.Value(d.NewSelect().Table(table).Count(t.Context()))(t)
}

func TestRegister_SendsVerification(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, registered Login) {
		token := box.last(t, 1)
		got := box.messages[0]
		for _, part := range []string{token, "https://sho.rt/verify#" + token, "until 2026-11-21 12:00 UTC"} {
			if !strings.Contains(got.text, part) {
				t.Errorf("the message does not contain %q:\n%s", part, got.text)
			}
		}
		if got.to != b.email || got.subject == "" || strings.Contains(got.text, "Ada") {
			t.Errorf("got message %+v", got)
		}
		if registered.Account.EmailVerified() {
			t.Error("the address is verified without a confirmation")
		}
		b.now = b.now.Add(time.Hour)
		verified, err := b.VerifyEmail(t.Context(), token)
		if err != nil || !verified.EmailVerified() || verified.ID != registered.Account.ID ||
			!verified.EmailVerifiedAt.Equal(b.now) {
			t.Fatalf("%+v: %v", verified, err)
		}
		at(t, errs.BadCredentials, "token")(b.VerifyEmail(t.Context(), token))
		me, _ := b.as(t, registered.Token)
		if email, known, err := b.Emails(t.Context(), me); email != b.email || !known || err != nil {
			t.Errorf("%s, %t: %v", email, known, err)
		}
		must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
		b.request(t)
		reset := must.Value(b.ResetPassword(t.Context(), box.last(t, 2), newPassword, Proof{}, b.from()))(t)
		if !reset.EmailVerifiedAt.Equal(noon.Add(time.Hour)) { // the first proof counts
			t.Errorf("%+v", reset)
		}
	})
}

func TestRegister_SendsNothingWithoutServer(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		b, box := setup(t, d, dbtest.Redis(t, "")), &mailbox{off: true}
		b.Mail = box
		l := b.register(t, b.email)
		if len(box.messages) != 0 || rows(t, d, "auth_flows") != 0 {
			t.Errorf("got messages %v and %d tokens, want none", box.messages, rows(t, d, "auth_flows"))
		}
		me, _ := b.as(t, l.Token)
		if email, verified, err := b.Emails(t.Context(), me); email != b.email || verified || err != nil {
			t.Errorf("%s, %t: %v", email, verified, err)
		}
		b.Mail = nil
		b.register(t, "other-"+b.email)
		must.NoError(t, b.RequestVerification(t.Context(), me, " "+strings.ToUpper(b.email)))
		b.request(t)
	})
}

func TestMailedToken_IsNotStored(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, _ Login) {
		b.request(t)
		var kept []flow
		must.NoError(t, b.DB.NewSelect().Model(&kept).Order("kind").Scan(t.Context()))
		if len(kept) != 2 || kept[0].Kind != "RESET_PASSWORD" || !cmp.Equal(kept[0].Hash, HashSecret(box.last(t, 2))) ||
			len(kept[0].Hash) != 32 {
			t.Errorf("kept %+v", kept)
		}
	})
}

// TestMailedToken_HasOnePurpose checks that a token works until the stated time, and for one
// purpose.
func TestMailedToken_HasOnePurpose(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, registered Login) {
		verification := box.last(t, 1)
		b.request(t)
		reset := box.last(t, 2)
		for i, line := range []string{"\nhttps://sho.rt/verify#" + verification + "\n",
			"\nhttps://sho.rt/password#" + reset + "\n"} {
			if got := box.messages[i].text; !strings.Contains(got, line) {
				t.Errorf("no line %q in %s", line, got)
			}
		}
		for _, token := range []string{
			reset, "", "mailed_", registered.RefreshToken, registered.Token, "\x00\xff", strings.Repeat("x", 1<<16),
			strings.ToLower(verification),
		} {
			at(t, errs.BadCredentials, "token")(b.VerifyEmail(t.Context(), token))
		}
		for _, token := range []string{verification, "", "mailed_", registered.RefreshToken, "\x00\xff",
			strings.TrimPrefix(reset, "mailed_")} {
			at(t, errs.BadCredentials, "token")(b.ResetPassword(t.Context(), token, newPassword, Proof{}, b.from()))
			at(t, errs.InvalidInput, "newPassword")(b.ResetPassword(t.Context(), token, "short", Proof{}, b.from()))
		}
		b.now = noon.Add(time.Hour)
		at(t, errs.BadCredentials, "token")(b.ResetPassword(t.Context(), reset, newPassword, Proof{}, b.from()))
		b.now = noon.Add(time.Hour - time.Microsecond)
		must.Value(b.ResetPassword(t.Context(), reset, newPassword, Proof{}, b.from()))(t)
		b.now = noon.Add(24 * time.Hour)
		at(t, errs.BadCredentials, "token")(b.VerifyEmail(t.Context(), verification))
		b.now = noon.Add(24*time.Hour - time.Microsecond)
		must.Value(b.VerifyEmail(t.Context(), verification))(t)
	})
}

func TestVerify_CanBeRequestedAgain(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, registered Login) {
		me, _ := b.as(t, registered.Token)
		wantError(t, errs.InvalidInput, "another address")(b.RequestVerification(t.Context(), me, "other-"+b.email))
		tokens := []string{box.last(t, 1)}
		for n := range 5 {
			must.NoError(t, b.RequestVerification(t.Context(), me, " "+strings.ToUpper(b.email)))
			tokens = append(tokens, box.last(t, n+2))
		}
		b.refused(t, b.RequestVerification(t.Context(), me, " "+strings.ToUpper(b.email)), time.Hour)
		box.last(t, 6)
		// earlier tokens stay valid: messages may arrive in any order
		answers := atOnce(len(tokens), func(i int) error { return errstest.Of(b.VerifyEmail(t.Context(), tokens[i])) })
		wanttest.Equal(t, map[string]int{"OK": 6}, answers, "answers")
		// the address is verified already
		must.NoError(t, b.RequestVerification(t.Context(), me, " "+strings.ToUpper(b.email)))
		box.last(t, 6)
	})
}

func TestResetPassword_SetsPassword(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, first Login) {
		second := must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
		stranger := b.register(t, "other-"+b.email)
		b.request(t)
		earlier := box.last(t, 3)
		b.request(t)
		token := box.last(t, 4)
		got := box.messages[3]
		if got.to != b.email || !strings.Contains(got.text, "/password#"+token) ||
			!strings.Contains(got.text, "until 2026-11-20 13:00 UTC") {
			t.Errorf("got message %+v", got)
		}
		for _, weak := range []string{"short", b.email, "password"} {
			at(t, errs.InvalidInput, "newPassword")(b.ResetPassword(t.Context(), token, weak, Proof{}, b.from()))
		}
		b.works(t, "while nothing has changed", first, true)
		b.now = b.now.Add(time.Minute)
		// messages may arrive in any order
		account, err := b.ResetPassword(t.Context(), earlier, newPassword, Proof{}, b.from())
		if err != nil || account.ID != first.Account.ID || !account.EmailVerified() ||
			!account.EmailVerifiedAt.Equal(b.now) {
			t.Fatalf("%+v: %v", account, err)
		}
		for _, l := range []Login{first, second} {
			b.works(t, "a session from before", l, false)
			at(t, errs.BadCredentials, "refreshToken")(b.Refresh(t.Context(), l.RefreshToken))
		}
		at(t, errs.BadCredentials, "token")(b.ResetPassword(t.Context(), token, newPassword, Proof{}, b.from()))
		b.works(t, "a stranger's", stranger, true)
		wantError(t, errs.BadCredentials, "the old password")(b.Login(t.Context(), b.email, password, b.from()))
		must.Value(b.Login(t.Context(), b.email, newPassword, b.from()))(t)       // the new password
		must.Value(b.Login(t.Context(), "other-"+b.email, password, b.from()))(t) // a stranger's password
		at(t, errs.BadCredentials, "token")(
			b.ResetPassword(t.Context(), token, "a third good password", Proof{}, b.from()))
	})
}

func TestResetPassword_SucceedsOnceConcurrently(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, _ Login) {
		b.request(t)
		token := box.last(t, 2)
		winner := ""
		answers := atOnce(20, func(i int) error {
			chosen := fmt.Sprintf("%s %d", newPassword, i)
			_, err := b.ResetPassword(t.Context(), token, chosen, Proof{}, b.from())
			if err == nil {
				winner = chosen
			}
			return err
		})
		wanttest.Equal(t, map[string]int{"OK": 1, "BAD_CREDENTIALS": 19}, answers, "answers")
		must.Value(b.Login(t.Context(), b.email, winner, b.from()))(t) // the winner's password
	})
}

// TestRequestReset_HidesExistence in the response, in the limits or in the timing.
func TestRequestReset_HidesExistence(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, _ Login) {
		for email, messages := range map[string]int{b.email: 3, "second-" + b.email: 0, "no address": 0, "": 0} {
			before := len(box.messages)
			from := Client{Address: id.New(id.Log)}
			for _, written := range []string{email, strings.ToUpper(email), " " + email + "\n"} {
				began := time.Now()
				must.NoError(t, b.RequestPasswordReset(t.Context(), written, from))
				if took := time.Since(began); took < minResetDuration {
					t.Errorf("%q took %s", email, took)
				}
			}
			for _, other := range []Client{from, {Address: id.New(id.Log)}} {
				b.refused(t, b.RequestPasswordReset(t.Context(), email, other), time.Hour)
			}
			for range 15 { // the rest of the address's twenty requests; refused ones count
				must.NoError(t, b.Limits.Charge(t.Context(), requestsPerAddress, from.Address))
			}
			if got := len(box.messages) - before; got != messages {
				t.Errorf("%q: %d messages, want %d", email, got, messages)
			}
		}
	})
}

func TestRequestReset_IsRateLimited(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		b, box := setup(t, dbtest.MigratedSQLite(t), k), &mailbox{}
		b.register(t, b.email)
		b.Mail = box
		b.charge(t, requestsPerAddress, 18)
		answers := atOnce(5, func(i int) error {
			return b.RequestPasswordReset(t.Context(), fmt.Sprintf("%d-%s", i, b.email), b.from())
		})
		wanttest.Equal(t, map[string]int{"OK": 2, "RATE_LIMITED": 3}, answers, "answers")
		for range 3 { // refused requests do not use up the account owner's limit
			b.refused(t, b.RequestPasswordReset(t.Context(), b.email, b.from()), time.Hour)
		}
		b.address = id.New(id.Log)
		b.request(t)
		b.charge(t, resetsPerAddress, 100)
		_, err := b.ResetPassword(t.Context(), box.last(t, 1), newPassword, Proof{}, b.from())
		b.refused(t, err, time.Hour)
	})
}

// TestLogin_FailsWhenOvertakenByReset began with the old password, and ends after it was replaced.
func TestLogin_FailsWhenOvertakenByReset(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, _ Login) {
		old := must.Value(b.byEmail(t.Context(), b.email))(t)
		b.request(t)
		must.Value(b.ResetPassword(t.Context(), box.last(t, 2), newPassword, Proof{}, b.from()))(t)
		wantError(t, errs.BadCredentials, "begun with the old password")(
			b.beginSession(t.Context(), pendingLogin{account: old, Methods: Methods(Password)}, b.from()))
		if n := b.going(t); n != 0 {
			t.Errorf("%d sessions go on", n)
		}
	})
}

// going returns the number of active sessions.
func (b *bundle) going(t *testing.T) int64 {
	t.Helper()
	return must.Value(b.DB.NewSelect().Model((*Session)(nil)).Where("revoked_at IS NULL").Count(t.Context()))(t)
}

// TestLogin_ConcurrentWithReset: in any order, no session with the old password survives.
func TestLogin_ConcurrentWithReset(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, _ Login) {
		b.request(t)
		token := box.last(t, 2)
		answers := atOnce(30, func(i int) error {
			if i == 15 {
				_, err := b.ResetPassword(t.Context(), token, newPassword, Proof{}, b.from())
				return err
			}
			_, err := b.Login(t.Context(), b.email, password, Client{Address: b.address})
			if errs.Is(err, errs.BadCredentials) || errs.Is(err, errs.RateLimited) {
				return nil
			}
			return err
		})
		if diff := cmp.Diff(map[string]int{"OK": 30}, answers); diff != "" || b.going(t) != 0 {
			t.Errorf("%d sessions go on, answers (-want +got):\n%s", b.going(t), diff)
		}
	})
}

func TestCleanup_RemovesExpiredMailedTokens(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, _ *mailbox, registered Login) {
		var many []*flow
		for i := range 2*sweepBatch + 1 {
			many = append(many, &flow{
				Hash: HashSecret(fmt.Sprint(i)), AccountID: registered.Account.ID, Kind: kindResetPassword,
				ExpiresAt: noon.Add(time.Hour),
			})
		}
		must.Value(b.DB.NewInsert().Model(&many).Exec(t.Context()))(t)
		for _, c := range []struct {
			after time.Duration
			want  int64
		}{{time.Hour - time.Microsecond, 2*sweepBatch + 2}, {time.Hour, 1}, {24 * time.Hour, 0}} {
			b.now = noon.Add(c.after)
			must.NoError(t, b.CleanUp(t.Context()))
			if n := rows(t, b.DB, "auth_flows"); n != c.want {
				t.Errorf("%d tokens after %s, want %d", n, c.after, c.want)
			}
		}
	})
}

// TestChangePassword_InvalidatesPendingReset: earlier reset tokens are invalid.
func TestChangePassword_InvalidatesPendingReset(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, registered Login) {
		me, _ := b.as(t, registered.Token)
		b.request(t)
		token := box.last(t, 2)
		must.Value(b.ChangePassword(t.Context(), me, with(password), "changed by its owner", b.address))(t)
		wantError(t, errs.BadCredentials, "reset")(
			b.ResetPassword(t.Context(), token, "reset by a stranger", Proof{}, b.from()))
	})
}
