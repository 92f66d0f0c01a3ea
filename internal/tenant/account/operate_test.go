package account

import (
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

func TestOperator_ListsAccounts(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		first := b.register(t, "ada_1@example.com")
		b.register(t, "ada01@example.com")
		gone := b.register(t, "gone@example.com")
		must.Value(b.Login(t.Context(), "ada_1@example.com", password, b.from()))(t)
		leaver, _ := b.as(t, gone.Token)
		must.NoError(t, b.Delete(t.Context(), leaver, with(password), b.address, nothing))
		find := func(email, after string, limit int) string {
			t.Helper()
			accounts := must.Value(b.AdminList(t.Context(), email, after, limit))(t)
			var got []string
			for _, p := range accounts {
				if p.Name != "Ada" || !p.CreatedAt.Equal(noon) || p.EmailVerifiedAt != nil {
					t.Errorf("%+v", p)
				}
				got = append(got, p.Email+" "+strings.Repeat("s", int(p.Sessions)))
			}
			return strings.Join(got, ", ")
		}
		for name, c := range map[string]struct{ email, after, want string }{
			"all":                {"", "", "ada_1@example.com ss, ada01@example.com s"},
			"after the first":    {"", first.Account.ID, "ada01@example.com s"},
			"part in upper case": {"ADA_1", "", "ada_1@example.com ss"}, // and not any character for the underscore
			"wildcard":           {"%", "", ""},
			"removed account":    {"gone", "", ""},
			"deleted account":    {"deleted", "", ""},
		} {
			if got := find(c.email, c.after, 10); got != c.want {
				t.Errorf("%s: %q after %q: %q, want %q", name, c.email, c.after, got, c.want)
			}
		}
		if got := find("", "", 1); got != "ada_1@example.com ss" {
			t.Errorf("at most one: %q", got)
		}
		b.now = noon.Add(b.SessionTTL)
		if got := find("", "", 10); got != "ada_1@example.com , ada01@example.com " {
			t.Errorf("when the sessions have ended: %q", got)
		}
	})
}

func TestOperator_EndsSessions(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d, dbtest.Redis(t, ""))
		mine, theirs := b.register(t, b.email), b.register(t, "other-"+b.email)
		again := must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
		b.now = noon.Add(time.Minute)
		node := &bundle{now: b.now, Store: &Store{DB: d, Tokens: b.Tokens, Log: b.Log, Now: b.Now}}
		operator := &Store{DB: d, Now: b.Now}
		for _, want := range []int64{2, 0} {
			a, n, err := operator.EndSessions(t.Context(), strings.ToUpper(b.email))
			if err != nil || n != want || a.ID != mine.Account.ID {
				t.Fatalf("ended %d sessions, want %d: %v", n, want, err)
			}
		}
		must.NoError(t, node.loadRevoked(t.Context(), node.Now()))
		for _, l := range []Login{mine, again} {
			node.works(t, "a token", l, false)
			at(t, errs.BadCredentials, "refreshToken")(b.Refresh(t.Context(), l.RefreshToken))
		}
		node.works(t, "another's token", theirs, true)
		for _, email := range []string{"nobody@example.com", "", "no address"} {
			wantError(t, errs.NotFound, email)(operator.EndSessions(t.Context(), email))
		}
	})
}
