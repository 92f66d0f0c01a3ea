package account

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// as returns the actor of a token, or the error.
func (b *bundle) as(t *testing.T, token string) (Actor, error) {
	t.Helper()
	ctx, err := b.Authenticate(t.Context(), "Bearer "+token)
	if err != nil {
		return Actor{}, err
	}
	return Current(ctx)
}

func (b *bundle) refresh(t *testing.T, token string) Login {
	t.Helper()
	return must.Value(b.Refresh(t.Context(), token))(t)
}

// works insists that a log-in's token is good, or is not.
func (b *bundle) works(t *testing.T, name string, l Login, want bool) {
	t.Helper()
	if _, err := b.as(t, l.Token); (err == nil) != want || err != nil && !errs.Is(err, errs.Unauthenticated) {
		t.Errorf("%s: %v", name, err)
	}
}

func TestRefresh_RotatesTokens(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		first := b.register(t, b.email)
		b.now = b.now.Add(time.Hour)
		second := b.refresh(t, first.RefreshToken)
		if second.RefreshToken == first.RefreshToken || !strings.HasPrefix(second.RefreshToken, "refresh_") ||
			second.Account.Email != b.email {
			t.Errorf("%+v after %+v", second, first)
		}
		was, _ := b.as(t, first.Token)
		is, err := b.as(t, second.Token)
		if err != nil || was != is {
			t.Errorf("%v goes on as %v: %v", was, is, err)
		}
		b.now = b.now.Add(refreshGrace)
		if again := b.refresh(t, first.RefreshToken); again.RefreshToken != second.RefreshToken {
			t.Error("within ten seconds a spent token has another successor")
		}
		third := b.refresh(t, second.RefreshToken)
		b.works(t, "the third", third, true)
		b.now = b.now.Add(time.Microsecond)
		wantError(t, errs.BadCredentials, "a token that was spent more than ten seconds ago")(
			b.Refresh(t.Context(), first.RefreshToken))
		b.works(t, "after a theft", third, false)
		wantError(t, errs.BadCredentials, "the thief's successor")(b.Refresh(t.Context(), third.RefreshToken))
	})
}

func TestRefresh_RefusesBadTokens(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.register(t, b.email)
		for _, token := range []string{"", "refresh_", "refresh_UNKNOWN", l.Token, "\x00\xff",
			strings.Repeat("x", 1<<16)} {
			wantError(t, errs.BadCredentials, token)(b.Refresh(t.Context(), token))
		}
		b.now = noon.Add(b.SessionTTL - time.Microsecond)
		l = b.refresh(t, l.RefreshToken)
		b.now = b.now.Add(b.SessionTTL)
		wantError(t, errs.BadCredentials, "after a long absence")(b.Refresh(t.Context(), l.RefreshToken))
	})
}

// TestRefresh_SucceedsOnceConcurrently has twenty tabs refresh with one token.
func TestRefresh_SucceedsOnceConcurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.register(t, b.email)
		successors := make([]string, 20)
		got := atOnce(len(successors), func(i int) error {
			next, err := b.Refresh(t.Context(), l.RefreshToken)
			successors[i] = next.RefreshToken
			return err
		})
		wanttest.Equal(t, map[string]int{"OK": 20}, got, "answers")
		if len(slices.Compact(successors)) != 1 {
			t.Errorf("several successors: %v", successors)
		}
	})
}

func TestLogout_EndsSession(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		logins := []Login{b.register(t, b.email)}
		for range 3 {
			l := must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
			logins = append(logins, l)
		}
		stranger := b.register(t, "other-"+b.email)
		me, _ := b.as(t, logins[0].Token)
		second, _ := b.as(t, logins[1].Token)
		them, _ := b.as(t, stranger.Token)
		for range 2 { // logging out twice is logging out once
			must.NoError(t, b.Logout(t.Context(), me, second.SessionID))
		}
		for _, sessionID := range []string{them.SessionID, id.New(id.Session), "", "x\x00"} {
			wantError(t, errs.NotFound, sessionID)(b.Logout(t.Context(), me, sessionID))
		}
		p, err := b.Sessions(t.Context(), me, page.Request{Size: 10})
		if err != nil || len(p.Items) != 3 || p.Items[0].Agent != "a test" {
			t.Errorf("sessions %+v: %v", p.Items, err)
		}
		must.NoError(t, b.LogoutEverywhere(t.Context(), me, true))
		for i, want := range []bool{true, false, false, false} {
			b.works(t, "mine", logins[i], want)
		}
		wantError(t, errs.BadCredentials, "a refresh token of an ended session")(
			b.Refresh(t.Context(), logins[2].RefreshToken))
		must.NoError(t, b.LogoutEverywhere(t.Context(), me, false))
		b.works(t, "this one", logins[0], false)
		b.works(t, "a stranger's", stranger, true)
	})
}

func TestChangePassword_EndsOtherSessions(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		other := b.register(t, b.email)
		this := must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
		me, _ := b.as(t, this.Token)
		for name, c := range map[string]struct {
			current, password string
			want              errs.Kind
			field             string
		}{
			"wrong password":    {"a wrong password", "another good password", errs.BadCredentials, "password"},
			"too short":         {password, "short", errs.InvalidInput, "newPassword"},
			"email as password": {password, b.email, errs.InvalidInput, "newPassword"},
		} {
			_, err := b.ChangePassword(t.Context(), me, with(c.current), c.password, b.address)
			if !errs.Is(err, c.want) || !cmp.Equal(errs.From(err).Field, []string{c.field}) {
				t.Errorf("%s: %v at %v", name, err, errs.From(err).Field)
			}
		}
		b.works(t, "while nothing has changed", other, true)
		changed := must.Value(b.ChangePassword(t.Context(), me, with(password), "another good password", b.address))(t)
		if stored := must.Value(b.byEmail(t.Context(), b.email))(t); changed.PasswordHash != stored.PasswordHash {
			t.Error("the answer has the old password")
		}
		b.works(t, "the session that changed it", this, true)
		b.works(t, "the other", other, false)
		wantError(t, errs.BadCredentials, "the old password")(b.Login(t.Context(), b.email, password, b.from()))
		must.Value(b.Login(t.Context(), b.email, "another good password", b.from()))(t) // the new password
	})
}

// TestRevocation_ReachesOtherNodes: what one node ends another refuses, without asking for each
// request.
func TestRevocation_ReachesOtherNodes(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		k := dbtest.Redis(t, "")
		b, other := setup(t, d, k), setup(t, d, k)
		there := feed.New(d, slog.New(slog.DiscardHandler), other.Now)
		there.Subscribe(other.Follow)
		must.NoError(t, there.CatchUp(t.Context()))
		l := b.register(t, b.email)
		other.works(t, "before", l, true)
		me, _ := b.as(t, l.Token)
		must.NoError(t, b.Logout(t.Context(), me, me.SessionID))
		b.works(t, "here", l, false)
		must.NoError(t, there.CatchUp(t.Context()))
		other.works(t, "there", l, false)
		started := setup(t, d, k)
		must.NoError(t, started.loadRevoked(t.Context(), started.Now()))
		started.works(t, "at a node that starts later", l, false)
	})
}

// TestRemoveTOTP_CountsAtOnce: tokens that were issued before prove no factor any more, at no node
// and by no later start, and those of a factor that is enrolled again do.
func TestRemoveTOTP_CountsAtOnce(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		o := enroll(t, d)
		k := dbtest.Redis(t, "")
		other := setup(t, d, k)
		other.now = o.now
		there := feed.New(d, slog.New(slog.DiscardHandler), other.Now)
		there.Subscribe(other.Follow)
		must.NoError(t, there.CatchUp(t.Context()))
		l := must.Value(o.CompleteLogin(t.Context(), o.challenge(t), o.totp(t), o.from()))(t)
		proves := func(name string, b *bundle, want bool) {
			t.Helper()
			me := must.Value(b.as(t, l.Token))(t)
			if me.HasSecondFactor != want || me.Methods.has(TOTP) != want || !me.Methods.has(Password) {
				t.Errorf("%s: the session has proved %s", name, me.Methods)
			}
		}
		proves("before", o.bundle, true)
		proves("before, there", other, true)
		me := must.Value(o.as(t, l.Token))(t)
		o.now = o.now.Add(time.Minute)
		must.Value(o.RemoveTOTP(t.Context(), me, o.totp(t), o.address))(t)
		proves("here", o.bundle, false)
		must.NoError(t, there.CatchUp(t.Context()))
		proves("there", other, false)
		started := setup(t, d, k)
		started.now = o.now
		must.NoError(t, started.loadRevoked(t.Context(), started.Now()))
		proves("at a node that starts later", started, false)

		old := l.Token
		o.secret = must.Value(o.EnrollTOTP(t.Context(), me, with(password), o.address))(t).Secret
		_, _, err := o.ConfirmTOTP(t.Context(), me, o.code(t), o.address)
		must.NoError(t, err)
		l = o.refresh(t, l.RefreshToken)
		must.NoError(t, there.CatchUp(t.Context()))
		proves("a token from after another enrollment", o.bundle, true)
		if s := must.Value(o.SessionsByID(t.Context(), me, me.SessionID))(t)[0]; s.Methods != "PASSWORD TOTP" {
			t.Errorf("the methods are %q", s.Methods) // once, although the token is from before the removal
		}
		proves("a token from after another enrollment, there", other, true)
		if l.Token == old {
			t.Error("the token is the same")
		}
	})
}

func TestCleanup_RemovesEndedSessions(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		revoked := b.register(t, b.email)
		me, _ := b.as(t, revoked.Token)
		must.NoError(t, b.Logout(t.Context(), me, me.SessionID))
		left := func(want int64) {
			t.Helper()
			must.NoError(t, b.CleanUp(t.Context()))
			for _, table := range []string{"sessions", "refresh_tokens"} {
				if n, err := b.DB.NewSelect().Table(table).Count(t.Context()); err != nil || n != want {
					t.Errorf("%d rows of %s, want %d: %v", n, table, want, err)
				}
			}
		}
		left(1) // its token is still about, and has to be refused
		b.now = noon.Add(b.Tokens.TTL + skew)
		going := must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
		left(1)
		b.works(t, "the one that goes on", going, true)
		b.now = b.now.Add(b.SessionTTL + b.Tokens.TTL + skew)
		left(0)
	})
}

// meanwhile does something once, when an account has been read.
type meanwhile struct {
	once sync.Once
	do   func()
}

// BeforeQuery implements bun.QueryHook.
func (m *meanwhile) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

// AfterQuery implements bun.QueryHook.
func (m *meanwhile) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	if strings.Contains(e.Query, `FROM "accounts"`) {
		m.once.Do(m.do)
	}
}

// TestChangePassword_SucceedsOnceConcurrently: the first change wins, so that a thief who knows the
// old password cannot undo the owner's change. A deleted account gets no password.
func TestChangePassword_SucceedsOnceConcurrently(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		for name, statement := range map[string]string{
			"rescued": "UPDATE accounts SET password_hash = 'another' WHERE id = ?",
			"deleted": "UPDATE accounts SET password_hash = '', deleted_at = '2026-11-20 12:00:00+00:00' WHERE id = ?",
		} {
			b := setup(t, d, dbtest.Redis(t, ""))
			me, _ := b.as(t, b.register(t, name+"-"+b.email).Token)
			b.DB = &db.DB{Kind: d.Kind, DB: d.WithQueryHook(&meanwhile{do: func() {
				if _, err := d.NewRaw(statement, me.AccountID).Exec(t.Context()); err != nil {
					t.Error(err)
				}
			}})}
			wantError(t, errs.BadCredentials, name)(
				b.ChangePassword(t.Context(), me, with(password), "another good password", b.address))
			var hash string
			if err := d.NewRaw("SELECT password_hash FROM accounts WHERE id = ?", me.AccountID).
				Scan(t.Context(), &hash); err != nil || len(hash) > len("another") {
				t.Errorf("%s: the hash is %q: %v", name, hash, err)
			}
		}
	})
}

// TestUpdate_EndsWithSessions: who had a session cannot take the account over by an address that
// waits for its verification.
func TestUpdate_EndsWithSessions(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, l Login) {
		me, thief := must.Value(b.as(t, l.Token))(t), Login{}
		for name, end := range map[string]func() error{
			"changePassword": func() error {
				return errstest.Of(b.ChangePassword(t.Context(), me, with(password), password, b.address))
			},
			"logoutEverywhere": func() error { return b.LogoutEverywhere(t.Context(), me, true) },
			"logout": func() error {
				return b.Logout(t.Context(), Actor{AccountID: me.AccountID}, me.SessionID)
			},
			"a stolen refresh token": func() error {
				_, err := b.Refresh(t.Context(), thief.RefreshToken)
				must.NoError(t, err)
				b.now = b.now.Add(refreshGrace + time.Second)
				wantError(t, errs.BadCredentials, "a spent token")(b.Refresh(t.Context(), thief.RefreshToken))
				return nil
			},
			"resetPassword": func() error {
				b.request(t)
				_, err := b.ResetPassword(t.Context(), box.last(t, len(box.messages)), password, Proof{}, b.from())
				return err
			},
		} {
			thief = must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
			me = must.Value(b.as(t, thief.Token))(t)
			must.Value(b.Update(t.Context(), me, nil, new("thief-"+b.email), with(password), b.address))(t)
			token := box.last(t, len(box.messages))
			must.NoError(t, end())
			if a, err := b.VerifyEmail(t.Context(), token); !errs.Is(err, errs.BadCredentials) {
				t.Fatalf("after %s the address is %s: %v", name, a.Email, err)
			}
		}
	})
}

// TestLogoutEverywhere_WaitsForChanges by the sessions that it ends, and takes them back.
func TestLogoutEverywhere_WaitsForChanges(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, _ *mailbox, l Login) {
		me := must.Value(b.as(t, l.Token))(t)
		ended := make(chan error, 1)
		must.NoError(t, b.DB.Tx(t.Context(), func(ctx context.Context, tx bun.Tx) error {
			if err := b.lockFor(ctx, tx, me); err != nil {
				return err
			}
			go func() { ended <- b.LogoutEverywhere(t.Context(), me, false) }()
			time.Sleep(200 * time.Millisecond)
			_, err := b.newMailed(ctx, tx, me.AccountID, "thief-"+b.email, changeEmail)
			return err
		}))
		must.NoError(t, <-ended)
		if pending := b.pending(t, me.AccountID); pending != "" {
			t.Errorf("%s waits for its verification", pending)
		}
	})
}

// TestChanges_NeedLiveSession: a request that was authenticated before its session ended changes
// nothing afterwards.
func TestChanges_NeedLiveSession(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		o, b := enroll(t, d), &owner{}
		b.bundle, b.box, _ = setupMail(t, d)
		b.Sealed = o.Sealed
		must.Value(b.VerifyEmail(t.Context(), b.box.last(t, 1)))(t)
		b.me = must.Value(b.as(t, must.Value(b.Login(t.Context(), b.email, password, b.from()))(t).Token))(t)
		b.secret = must.Value(b.EnrollTOTP(t.Context(), b.me, with(password), b.address))(t).Secret
		must.NoError(t, b.LogoutEverywhere(t.Context(), b.me, false))
		must.NoError(t, o.Logout(t.Context(), o.me, o.me.SessionID))
		_, _, confirmed := b.ConfirmTOTP(t.Context(), b.me, b.code(t), b.address)
		_, removed := o.RemoveTOTP(t.Context(), o.me, o.totp(t), o.address)
		_, updated := b.Update(t.Context(), b.me, nil, new("thief-"+b.email), with(password), b.address)
		_, changed := b.ChangePassword(t.Context(), b.me, with(password), newPassword, b.address)
		_, enrolled := b.EnrollTOTP(t.Context(), b.me, with(password), b.address)
		deleted := b.Delete(t.Context(), b.me, with(password), b.address, nothing)
		for name, err := range map[string]error{
			"confirmTotp": confirmed, "removeTotp": removed, "updateMe": updated, "changePassword": changed,
			"enrollTotp":      enrolled,
			"deleteMyAccount": deleted,
		} {
			if !errs.Is(err, errs.Unauthenticated) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
