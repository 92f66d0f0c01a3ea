package account

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/sso"
)

func setupLimits(t *testing.T, k *redisx.Client) *bundle {
	t.Helper()
	b := setup(t, dbtest.MigratedSQLite(t), k)
	b.register(t, b.email)
	return b
}

// eachRedis runs a test in parallel with others, on each kind of Redis.
func eachRedis(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		test(t, setupLimits(t, k))
	})
}

// guess logs in with a wrong password a number of times, and expects BAD_CREDENTIALS.
func (b *bundle) guess(t *testing.T, times int) {
	t.Helper()
	for i := range times {
		wantError(t, errs.BadCredentials, "wrong guess %d", i+1)(
			b.Login(t.Context(), b.email, "a wrong password", b.from()))
	}
}

// charge records attempts without the cost of a hash.
func (b *bundle) charge(t *testing.T, r ratelimit.Rate, times int) {
	t.Helper()
	for range times {
		must.NoError(t, b.Limits.Charge(t.Context(), r, b.address))
	}
}

func (b *bundle) refused(t *testing.T, err error, window time.Duration) {
	t.Helper()
	e := errs.From(err)
	if e.Kind != errs.RateLimited || e.RetryAfter <= 0 || e.RetryAfter > window {
		t.Errorf("%v, to be retried after %s; want RateLimited, for at most %s", err, e.RetryAfter, window)
	}
}

// TestLimits_RefuseAfterTenWrongPasswords: from one address. The owner logs in from another, and a
// logged-in session has its own limit.
func TestLimits_RefuseAfterTenWrongPasswords(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *bundle) {
		b.guess(t, 10)
		for _, p := range []string{"a wrong password", password} {
			for _, email := range []string{b.email, " " + strings.ToUpper(b.email)} {
				b.refused(t, errstest.Of(b.Login(t.Context(), email, p, b.from())), 15*time.Minute)
			}
		}
		b.register(t, "other-"+b.email)
		must.Value(b.Login(t.Context(), "other-"+b.email, password, b.from()))(t)
		owner := Client{Address: id.New(id.Log)}
		login, err := b.Login(t.Context(), b.email, password, owner)
		if err != nil {
			t.Fatalf("the owner from another address: %v", err)
		}
		actor, _, err := b.Tokens.check(login.Token, b.now)
		must.NoError(t, err)
		must.NoError(t, b.RequireProof(t.Context(), actor, with(password), owner.Address)) // the owner's session
		for range 10 {
			wantError(t, errs.BadCredentials, "a wrong proof")(
				b.RequireProof(t.Context(), actor, with("a wrong password"), owner.Address))
		}
		err = b.RequireProof(t.Context(), actor, with(password), owner.Address)
		b.refused(t, err, 15*time.Minute)
		must.Value(b.Login(t.Context(), b.email, password, owner))(t) // a log-in after wrong passwords of a session
	})
}

// TestLimits_HoldWithoutRedis: the node counts wrong passwords itself.
func TestLimits_HoldWithoutRedis(t *testing.T) {
	t.Parallel()
	k := dbtest.Redis(t, "")
	b := setupLimits(t, k)
	must.NoError(t, k.Close())
	b.guess(t, 10)
	b.refused(t, errstest.Of(b.Login(t.Context(), b.email, password, b.from())), 15*time.Minute)
	must.Value(b.Login(t.Context(), b.email, password, Client{Address: id.New(id.Log)}))(t)
}

// TestLimits_LimitASite: an attacker with an IPv6 /48 guesses from a network of 64 bits each.
func TestLimits_LimitASite(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *bundle) {
		guess := func(network int) error {
			_, err := b.Login(t.Context(), b.email, "a wrong password",
				Client{Address: fmt.Sprintf("2001:db8:1:%x::/64", network)})
			return err
		}
		for i := range 40 {
			if err := guess(i); !errs.Is(err, errs.BadCredentials) {
				t.Fatalf("guess %d: %v", i, err)
			}
		}
		b.refused(t, guess(40), 15*time.Minute)
		must.Value(b.Login(t.Context(), b.email, password, Client{Address: "2001:db8:2::/64"}))(t)
	})
}

// TestLimits_OfANetworkAreThoseOfItsSite: whoever has a /48 has four times the attempts of one
// network, whatever they do, and another site has its own.
func TestLimits_OfANetworkAreThoseOfItsSite(t *testing.T) {
	t.Parallel()
	b := setupLimits(t, dbtest.Redis(t, ""))
	login := must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
	actor, _, err := b.Tokens.check(login.Token, b.now)
	must.NoError(t, err)
	b.SSO = &SSO{}
	for i, c := range []struct {
		rate ratelimit.Rate
		try  func(from Client) error
	}{
		{wrongPerAddress, func(from Client) error {
			return errstest.Of(b.Login(t.Context(), "nobody@example.com", password, from))
		}},
		{wrongPerAddress, func(from Client) error {
			return b.RequireProof(t.Context(), actor, with("a wrong password"), from.Address)
		}},
		{rightPerAddress, func(from Client) error {
			return b.RequireProof(t.Context(), actor, with(password), from.Address)
		}},
		{wrongCodesPerAddress, func(from Client) error {
			return b.RequireProof(t.Context(), actor, Proof{TOTP: new("123456")}, from.Address)
		}},
		{registersPerAddress, func(from Client) error {
			return errstest.Of(b.Register(t.Context(), b.email, password, "Ada", from, nil))
		}},
		{requestsPerAddress, func(from Client) error {
			return b.RequestPasswordReset(t.Context(), from.Address+"@example.com", from)
		}},
		{resetsPerAddress, func(from Client) error {
			return errstest.Of(b.ResetPassword(t.Context(), "mailed_unknown", password, Proof{}, from))
		}},
		{startsPerAddress, func(from Client) error { _, err := b.StartSSO(t.Context(), "", from); return err }},
		{finishesPerAddress, func(from Client) error {
			return errstest.Of(b.FinishSSO(t.Context(), sso.Response{}, from))
		}},
	} {
		from := func(network int) Client { return Client{Address: fmt.Sprintf("2001:db8:%x:%x::/64", i, network)} }
		for network := range 4 {
			must.NoError(t, b.Limits.SpendFrom(t.Context(), c.rate, c.rate.Attempts, from(network).Address))
		}
		b.refused(t, c.try(from(4)), c.rate.Window)
		if strings.HasPrefix(c.rate.Name, "sso") {
			continue // this test has no provider
		}
		if err := c.try(Client{Address: fmt.Sprintf("2001:db8:%x::/64", 0x100+i)}); errs.Is(err, errs.RateLimited) {
			t.Errorf("%s, from another site: %v", c.rate.Name, err)
		}
	}
}

// TestLimits_NobodyLocksOutTheOwner: an attacker with many addresses uses up the wide limit of an
// account. Then each address has one attempt, and the owner's is enough.
func TestLimits_NobodyLocksOutTheOwner(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *bundle) {
		guess := func(address string) error {
			return errstest.Of(b.Login(t.Context(), b.email, "a wrong password", Client{Address: address}))
		}
		places := make([]string, 12)
		for i := range places {
			places[i] = id.New(id.Log)
		}
		for i := range 100 {
			if err := guess(places[i/9]); !errs.Is(err, errs.BadCredentials) {
				t.Fatalf("guess %d: %v", i, err)
			}
		}
		fresh := id.New(id.Log)
		wantError(t, errs.BadCredentials, "the one attempt of an address beyond the wide limit")(guess(fresh))
		b.refused(t, guess(fresh), 15*time.Minute)
		must.Value(b.Login(t.Context(), b.email, password, Client{Address: id.New(id.Log)}))(t)
	})
}

// TestLimits_BoundCorrectLogins: each costs as much as a wrong one.
func TestLimits_BoundCorrectLogins(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *bundle) {
		for range 60 {
			must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
		}
		b.refused(t, errstest.Of(b.Login(t.Context(), b.email, password, b.from())), 15*time.Minute)
	})
}

// TestLimits_DelayGrows: an address does, twice as long with each attempt that was
// refused, up to an hour.
func TestLimits_DelayGrows(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *bundle) {
		b.charge(t, wrongPerAddress, 100)
		for i, most := range []time.Duration{15 * time.Minute, 30 * time.Minute, time.Hour, time.Hour, time.Hour} {
			_, err := b.Login(t.Context(), b.email, password, b.from())
			b.refused(t, err, most)
			if wait := errs.From(err).RetryAfter; wait < most*9/10 {
				t.Errorf("refused %d times: the wait is %s, want about %s", i+1, wait, most)
			}
		}
	})
}

func TestLimits_SuccessIsNotCounted(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *bundle) {
		good := func() {
			t.Helper()
			must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
		}
		b.charge(t, wrongPerAddress, 89) // of 100
		for range 12 {                   // more than either limit has left
			good()
		}
		b.guess(t, 9)
		good() // nor is a good one a pardon for the bad ones before it
		b.guess(t, 1)
		b.refused(t, errstest.Of(b.Login(t.Context(), b.email, password, b.from())), 15*time.Minute)
	})
}

func TestLimits_AreExactConcurrently(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *bundle) {
		answers := atOnce(30, func(int) error {
			return errstest.Of(b.Login(t.Context(), b.email, "a wrong password", b.from()))
		})
		wanttest.Equal(t, map[string]int{"BAD_CREDENTIALS": 10, "RATE_LIMITED": 20}, answers, "answers")
	})
}

func TestLimits_CountersExpireAndAreAnonymous(t *testing.T) {
	t.Parallel()
	k := dbtest.Redis(t, "")
	b := setup(t, dbtest.MigratedSQLite(t), k)
	b.email, b.address = "grace@example.com", "192.0.2.77" // texts that no hex digits contain
	b.register(t, b.email)
	b.guess(t, 1)
	must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
	keys, err := k.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 6 {
		t.Fatalf("Redis holds %v, want one key a limit: %v", keys, err)
	}
	for _, key := range keys {
		if ttl := k.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > time.Hour {
			t.Errorf("%s lives for %s", key, ttl)
		}
		if strings.Contains(key, "grace") || strings.Contains(key, "example") || strings.Contains(key, "192.0.2") {
			t.Errorf("%s says of whom", key)
		}
	}
}

// TestLimits_BoundHashing: a new password is hashed for each of these proofs before the proof is
// spent.
func TestLimits_BoundHashing(t *testing.T) {
	eachOwner(t, func(t *testing.T, o *owner) {
		change := func() error {
			_, err := o.ChangePassword(t.Context(), o.me, Proof{RecoveryCode: new("a wrong one"), Field: "proof"},
				newPassword, o.address)
			return err
		}
		for range rightOfAccount.Attempts - 1 { // enrolling took one
			wantError(t, errs.BadCredentials, "within the limit")(change())
		}
		wantError(t, errs.RateLimited, "beyond the limit")(change())
	})
}
