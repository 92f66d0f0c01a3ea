package account

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// wantError and atOnce are those of errstest.
var (
	wantError = errstest.Want
	atOnce    = errstest.AtOnce
)

// noon is when the tests begin.
var noon = dbtest.Noon

const password = "correct horse battery staple"

// bundle is a store with cheap password hashes, and the origin of the test's requests in a shared
// Redis.
type bundle struct {
	*Store
	now            time.Time
	email, address string
}

func setup(t *testing.T, d *db.DB, k *redisx.Client) *bundle {
	t.Helper()
	b := &bundle{now: noon, email: strings.TrimPrefix(id.New(id.Account), "usr_") + "@example.com",
		address: id.New(id.Log)}
	b.Store = &Store{
		DB: d,
		Tokens: Tokens{Secrets: [][]byte{[]byte(strings.Repeat("s", 32))}, Issuer: "http://sho.rt",
			TTL: 24 * time.Hour},
		Passwords:  NewUserPasswords(bcrypt.MinCost),
		SessionTTL: 720 * time.Hour,
		Log:        slog.New(slog.DiscardHandler),
		Limits:     ratelimit.New(k, slog.New(slog.NewTextHandler(io.Discard, nil)), time.Now),
		Now:        func() time.Time { return b.now },
	}
	return b
}

// each runs a test in parallel with others, on both databases.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		test(t, setup(t, d, dbtest.Redis(t, "")))
	})
}

// with is a password as a proof.
func with(password string) Proof { return Proof{Password: &password, Field: "password"} }

func (b *bundle) from() Client { return Client{Address: b.address, Agent: "a test"} }

func (b *bundle) register(t *testing.T, email string) Login {
	t.Helper()
	return must.Value(b.Register(t.Context(), email, password, "Ada", b.from(), nil))(t)
}

func TestRegister_ThenLogin(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		registered := must.Value(b.Register(t.Context(), " Ada@Example.COM ", password, " Ada Lovelace ", b.from(),
			nil))(t)
		a := registered.Account
		if a.Email != "ada@example.com" || a.Name != "Ada Lovelace" || !id.Valid(id.Account, a.ID) ||
			!a.CreatedAt.Equal(noon) {
			t.Errorf("registered %+v", a)
		}
		must.Value(bcrypt.Cost([]byte(a.PasswordHash)))(t)
		b.now = noon.Add(time.Hour)
		session := must.Value(b.Login(t.Context(), "ADA@example.com", password, b.from()))(t)
		if session.Account.ID != a.ID || session.Account.Name != a.Name ||
			!session.ExpiresAt.Equal(noon.Add(25*time.Hour)) {
			t.Errorf("logged in as %+v until %s", session.Account, session.ExpiresAt)
		}
		for _, s := range []Login{registered, session} {
			if actor, _, err := b.Tokens.check(s.Token, b.now); err != nil || actor.AccountID != a.ID {
				t.Errorf("the token stands for %v: %v", actor, err)
			}
		}
	})
}

func TestRegister_SucceedsOnceConcurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		answers := atOnce(50, func(i int) error {
			email := "ada@example.com"
			if i%2 == 1 {
				email = "Ada@Example.com"
			}
			_, err := b.Register(t.Context(), email, password, fmt.Sprintf("Ada %d", i), b.from(), nil)
			return err
		})
		wanttest.Equal(t, map[string]int{"OK": 1, "EMAIL_TAKEN": 49}, answers, "answers")
		if rows, err := b.DB.NewSelect().Model((*Account)(nil)).Count(t.Context()); err != nil || rows != 1 {
			t.Errorf("%d accounts: %v", rows, err)
		}
	})
}

func TestLogin_HidesReason(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.register(t, b.email)
		_, wrong := b.Login(t.Context(), b.email, "a wrong password", b.from())
		if !errs.Is(wrong, errs.BadCredentials) {
			t.Fatalf("a wrong password: %v", wrong)
		}
		for _, email := range []string{
			"nobody@example.com", "", "no address", "x\x00@example.com", "\xff@example.com", "' OR 1=1 --",
			strings.Repeat("a", 10_000) + "@example.com",
		} {
			for _, p := range []string{password, "", "an unused password"} {
				_, err := b.Login(t.Context(), email, p, Client{Address: id.New(id.Log)})
				errstest.Same(t, wrong, err, "%.20q, password %q: another error", email, p)
			}
		}
	})
}

// comparisons counts the comparisons of passwords, and fails them with its error, if it has one.
type comparisons struct {
	Passwords
	n   int
	err error
}

func (c *comparisons) Matches(ctx context.Context, hash, password, subject string) (bool, error) {
	c.n++
	if c.err != nil {
		return false, c.err
	}
	return c.Passwords.Matches(ctx, hash, password, subject)
}

// TestLogin_TakesEqualTimeForUnknownAccounts: it compares a password for them, too.
func TestLogin_TakesEqualTimeForUnknownAccounts(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t), dbtest.Redis(t, ""))
	counted := &comparisons{Passwords: b.Passwords}
	b.Passwords = counted
	for i, email := range []string{"nobody@example.com", "no address"} {
		if _, err := b.Login(t.Context(), email, password, b.from()); !errs.Is(err, errs.BadCredentials) ||
			counted.n != i+1 {
			t.Errorf("%s was refused after %d comparisons: %v", email, counted.n, err)
		}
	}
}

// TestLogin_CountsNoRejectedAttempt: a log-in that waited in vain is no wrong password.
func TestLogin_CountsNoRejectedAttempt(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		b := setup(t, dbtest.MigratedSQLite(t), k)
		b.register(t, b.email)
		busy := &comparisons{Passwords: b.Passwords, err: errs.New(errs.Unavailable, "The server is busy.")}
		b.Passwords = busy
		for range 110 { // more than any limit
			wantError(t, errs.Unavailable, "logged in while others hold all turns")(
				b.Login(t.Context(), b.email, password, b.from()))
		}
		busy.err = nil
		b.guess(t, 9)
		must.Value(b.Login(t.Context(), b.email, password, b.from()))(t) // logging in when the others are gone
	})
}

func TestRegister_RefusesBadInput(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t), dbtest.Redis(t, ""))
	for name, c := range map[string]struct{ email, password, name, field string }{
		"no address":          {"ada", password, "Ada", "email"},
		"short password":      {"ada@example.com", "1234567", "Ada", "password"},
		"password is address": {"ada@example.com", "ADA@example.com", "Ada", "password"},
		"no name":             {"ada@example.com", password, " ", "name"},
		"101 characters":      {"ada@example.com", password, strings.Repeat("ä", 101), "name"},
	} {
		_, err := b.Register(t.Context(), c.email, c.password, c.name, b.from(), nil)
		if diff := cmp.Diff([]string{c.field}, errs.From(err).Field); diff != "" ||
			!errs.Is(err, errs.InvalidInput) {
			t.Errorf("%s: %v, at (-want +got):\n%s", name, err, diff)
		}
	}
	if rows, err := b.DB.NewSelect().Model((*Account)(nil)).Count(t.Context()); err != nil || rows != 0 {
		t.Errorf("%d accounts: %v", rows, err)
	}
}

func TestLoad_ReturnsExistingAccounts(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ada, eve := dbtest.Account(t, b.DB), dbtest.Account(t, b.DB)
		must.Value(b.DB.NewUpdate().Model((*Account)(nil)).Set("deleted_at = ?", noon).Where("id = ?", eve).
			Exec(t.Context()))(t)
		found, err := b.Load(t.Context(), ada, eve, id.New(id.Account), "' OR 1=1 --")
		if err != nil || len(found) != 1 || found[ada].ID != ada {
			t.Errorf("found %v: %v", found, err)
		}
	})
}
