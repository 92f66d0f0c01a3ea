package account

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// nothing is the cleanup of a package without data of an account.
func nothing(context.Context, bun.Tx, string) error { return nil }

func TestDelete_ErasesAccount(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		b, box, l := setupMail(t, d)
		verification := box.last(t, 1)
		b.request(t)
		reset := box.last(t, 2)
		other := must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
		stranger := b.register(t, "other-"+b.email)
		me, _ := b.as(t, l.Token)
		b.now = noon.Add(time.Minute)
		must.NoError(t, b.Delete(t.Context(), me, with(password), b.address, nothing))
		var left Account
		must.NoError(t, d.NewSelect().Model(&left).Where("id = ?", me.AccountID).Scan(t.Context()))
		hollow := Account{ID: me.AccountID, Email: "deleted:" + me.AccountID, CreatedAt: noon, UpdatedAt: b.now,
			DeletedAt: &b.now}
		wanttest.Equal(t, hollow, left, "left")
		var sessions []Session
		if err := d.NewSelect().Model(&sessions).Where("account_id = ?", me.AccountID).Scan(t.Context()); err != nil ||
			len(sessions) != 2 {
			t.Fatalf("%d sessions: %v", len(sessions), err)
		}
		for _, s := range sessions {
			if s.Agent != "" || s.RevokedAt == nil || !s.RevokedAt.Equal(b.now) {
				t.Errorf("left %+v", s)
			}
		}
		if n, m := rows(t, d, "refresh_tokens"), rows(t, d, "auth_flows"); n != 1 || m != 1 { // the stranger's
			t.Errorf("%d refresh tokens and %d mailed ones are left", n, m)
		}
		b.gone(t, l, other)
		at(t, errs.BadCredentials, "token")(b.VerifyEmail(t.Context(), verification))
		at(t, errs.BadCredentials, "token")(b.ResetPassword(t.Context(), reset, newPassword, Proof{}, b.from()))
		b.works(t, "a stranger's", stranger, true)
		b.refresh(t, stranger.RefreshToken)
	})
}

// gone checks that all credentials of a deleted account are refused.
func (b *bundle) gone(t *testing.T, logins ...Login) {
	t.Helper()
	ctx := t.Context()
	node := &bundle{now: b.now, Store: &Store{DB: b.DB, Tokens: b.Tokens, Log: b.Log, Now: b.Now}}
	must.NoError(t, node.loadRevoked(ctx, node.Now()))
	for _, l := range logins {
		b.works(t, "a token", l, false)
		node.works(t, "a token, on another node", l, false)
		at(t, errs.BadCredentials, "refreshToken")(b.Refresh(ctx, l.RefreshToken))
	}
	account := logins[0].Account
	for _, p := range []string{password, ""} {
		wantError(t, errs.BadCredentials, "password %q", p)(b.Login(ctx, account.Email, p, b.from()))
	}
	if found, err := b.Get(ctx, account.ID); err != nil || len(found) != 0 {
		t.Errorf("found %v: %v", found, err)
	}
	me := Actor{AccountID: account.ID}
	wantError(t, errs.Unauthenticated, "e-mail")(b.Emails(ctx, me))
	wantError(t, errs.Unauthenticated, "export")(b.Export(ctx, me))
	wantError(t, errs.Unauthenticated, "verification")(b.RequestVerification(ctx, me, account.Email))
	wantError(t, errs.Unauthenticated, "change")(b.ChangePassword(ctx, me, with(password), newPassword, b.address))
	wantError(t, errs.Unauthenticated, "deleting it again")(b.Delete(ctx, me, with(password), b.address, nothing))
	before := len(b.Mail.(*mailbox).messages)
	b.request(t)
	if after := len(b.Mail.(*mailbox).messages); after != before {
		t.Error("a deleted account is mailed")
	}
}

func TestDelete_FreesAddress(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, old Login) {
		was, _ := b.as(t, old.Token)
		must.NoError(t, b.Delete(t.Context(), was, with(password), b.address, nothing))
		wantError(t, errs.BadCredentials, "the old account")(b.Login(t.Context(), b.email, password, b.from()))
		again, err := b.Register(t.Context(), b.email, newPassword, "Eve", b.from(), nil)
		if err != nil || again.Account.ID == old.Account.ID || again.Account.EmailVerified() {
			t.Fatalf("%+v: %v", again.Account, err)
		}
		b.works(t, "the old token", old, false)
		b.works(t, "the new token", again, true)
		must.Value(b.VerifyEmail(t.Context(), box.last(t, 2)))(t)
		is, _ := b.as(t, again.Token)
		must.NoError(t, b.Delete(t.Context(), is, with(newPassword), b.address, nothing)) // deleting the second
	})
}

// TestDelete_RefusesSoleOwner checks that a wrong password or an error of another package leaves
// the account unchanged.
func TestDelete_RefusesSoleOwner(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, l Login) {
		me, _ := b.as(t, l.Token)
		at(t, errs.BadCredentials, "password")(
			b.Delete(t.Context(), me, with("a wrong password"), b.address, func(context.Context, bun.Tx, string) error {
				t.Error("the callback was called")
				return nil
			}))
		err := b.Delete(t.Context(), me, with(password), b.address,
			func(ctx context.Context, tx bun.Tx, accountID string) error {
				if seen, err := tx.NewSelect().Table("workspaces").Count(ctx); err != nil || seen == 0 ||
					accountID != me.AccountID {
					t.Errorf("the callback got account %s and sees %d workspaces: %v", accountID, seen, err)
				}
				var email string
				err := tx.NewSelect().Table("accounts").Column("email").Where("id = ?", accountID).Scan(ctx, &email)
				if err != nil || email != b.email { // cleanups may need the address
					t.Errorf("the address is %q: %v", email, err)
				}
				if _, err := tx.NewUpdate().Table("accounts").Set("name = 'Eve'").Where("id = ?", accountID).
					Exec(ctx); err != nil {
					t.Error(err)
				}
				return errs.New(errs.LastOwner, "Give the workspace another owner first.").At("workspace")
			})
		at(t, errs.LastOwner, "workspace")(err)
		b.works(t, "after all", l, true)
		b.refresh(t, l.RefreshToken)
		if found, err := b.Get(t.Context(), me.AccountID); err != nil || found[me.AccountID].Name != "Ada" {
			t.Errorf("%+v: %v", found[me.AccountID], err)
		}
		must.Value(b.VerifyEmail(t.Context(), box.last(t, 1)))(t)
		for range 9 {
			at(t, errs.BadCredentials, "password")(
				b.Delete(t.Context(), me, with("a wrong password"), b.address, nothing))
		}
		b.refused(t, b.Delete(t.Context(), me, with(password), b.address, nothing), 15*time.Minute)
	})
}

func TestDelete_SucceedsOnceConcurrently(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, _ *mailbox, l Login) {
		me, _ := b.as(t, l.Token)
		answers := atOnce(20, func(i int) error {
			if i < 10 {
				return b.Delete(t.Context(), me, with(password), b.address, nothing)
			}
			_, err := b.Login(t.Context(), b.email, password, Client{Address: b.address})
			if errs.Is(err, errs.BadCredentials) || errs.Is(err, errs.RateLimited) {
				return errNoAccount()
			}
			if err != nil {
				return err
			}
			return errNoAccount() // it came before, and has ended
		})
		if limited := answers["RATE_LIMITED"]; limited > 0 { // ten may try at once
			delete(answers, "RATE_LIMITED")
			answers["UNAUTHENTICATED"] += limited
		}
		if diff := cmp.Diff(map[string]int{"OK": 1, "UNAUTHENTICATED": 19}, answers); diff != "" || b.going(t) != 0 {
			t.Errorf("%d sessions go on, answers (-want +got):\n%s", b.going(t), diff)
		}
	})
}

// TestDelete_WinsOverRefresh has a session and an address that outlive their account.
func TestDelete_WinsOverRefresh(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, l Login) {
		must.Value(b.DB.NewUpdate().Model((*Account)(nil)).Set("deleted_at = ?", noon).Where("TRUE").
			Exec(t.Context()))(t)
		got, err := b.Refresh(t.Context(), l.RefreshToken)
		at(t, errs.BadCredentials, "refreshToken")(err)
		if got != (Login{}) {
			t.Errorf("%+v", got)
		}
		b.request(t)
		box.last(t, 1) // from when it was registered
	})
}

func TestExport_HasEveryRecord(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, l Login) {
		b.Sealed = secrets.Box{Key: []byte(strings.Repeat("k", 32))}
		b.register(t, "other-"+b.email)
		b.now = noon.Add(time.Minute)
		later := must.Value(b.Login(t.Context(), b.email, password, Client{Address: b.address, Agent: "another"}))(t)
		must.Value(b.VerifyEmail(t.Context(), mailedPattern.FindString(box.messages[0].text)))(t)
		me, _ := b.as(t, l.Token)
		too, _ := b.as(t, later.Token)
		must.NoError(t, b.Logout(t.Context(), me, too.SessionID))
		o := &owner{bundle: b, secret: must.Value(b.EnrollTOTP(t.Context(), me, with(password), b.address))(t).Secret}
		_, _, err := b.ConfirmTOTP(t.Context(), me, o.code(t), b.address)
		must.NoError(t, err)
		must.Value(b.Update(t.Context(), me, nil, new("new-"+b.email), with(password), b.address))(t)
		identity := &Identity{Issuer: "https://id.example", Subject: "ada", AccountID: me.AccountID, CreatedAt: b.now,
			UsedAt: b.now}
		must.Value(b.DB.NewInsert().Model(identity).Exec(t.Context()))(t)
		export := must.Value(b.Export(t.Context(), me))(t)
		got := must.Value(json.MarshalIndent(export, "", " "))(t)
		want := strings.NewReplacer("ACCOUNT", me.AccountID, "EMAIL", b.email, "FIRST", me.SessionID,
			"SECOND", too.SessionID).Replace(`{
 "account": {
  "id": "ACCOUNT",
  "email": "EMAIL",
  "name": "Ada",
  "createdAt": "2026-11-20T12:00:00Z",
  "emailVerifiedAt": "2026-11-20T12:01:00Z",
  "pendingEmail": "new-EMAIL",
  "totpSince": "2026-11-20T12:01:00Z",
  "recoveryCodes": 10
 },
 "sessions": [
  {
   "id": "FIRST",
   "agent": "a test",
   "methods": "PASSWORD TOTP",
   "authenticatedAt": "2026-11-20T12:00:00Z",
   "createdAt": "2026-11-20T12:00:00Z",
   "usedAt": "2026-11-20T12:00:00Z",
   "expiresAt": "2026-12-20T12:00:00Z",
   "revokedAt": null
  },
  {
   "id": "SECOND",
   "agent": "another",
   "methods": "PASSWORD",
   "authenticatedAt": "2026-11-20T12:01:00Z",
   "createdAt": "2026-11-20T12:01:00Z",
   "usedAt": "2026-11-20T12:01:00Z",
   "expiresAt": "2026-12-20T12:01:00Z",
   "revokedAt": "2026-11-20T12:01:00Z"
  }
 ],
 "ssoIdentities": [
  {
   "issuer": "https://id.example",
   "subject": "ada",
   "createdAt": "2026-11-20T12:01:00Z",
   "usedAt": "2026-11-20T12:01:00Z"
  }
 ]
}`)
		wanttest.Equal(t, want, string(got), "exported")
	})
}
