package account

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/redisx"
)

func setupLimits(t *testing.T, k *redisx.Client) *bundle {
	t.Helper()
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)), k)
	b.register(t, b.email)
	return b
}

// guess logs in with a wrong password a number of times, and expects BAD_CREDENTIALS.
func (b *bundle) guess(t *testing.T, times int) {
	t.Helper()
	for i := range times {
		if _, err := b.Login(t.Context(), b.email, "a wrong password", b.from()); !errs.Is(err, errs.BadCredentials) {
			t.Errorf("wrong guess %d: %v", i+1, err)
		}
	}
}

// charge records attempts without the cost of a hash.
func (b *bundle) charge(t *testing.T, r ratelimit.Rate, times int) {
	t.Helper()
	for range times {
		if err := b.Limits.Charge(t.Context(), r, b.address); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *bundle) refused(t *testing.T, err error, window time.Duration) {
	t.Helper()
	e := errs.From(err)
	if e.Kind != errs.RateLimited || e.RetryAfter <= 0 || e.RetryAfter > window {
		t.Errorf("%v, to be retried after %s; want RateLimited, for at most %s", err, e.RetryAfter, window)
	}
}

func TestLimits_RefuseAfterTenWrongPasswords(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		b := setupLimits(t, k)
		b.guess(t, 10)
		for _, p := range []string{"a wrong password", password} {
			for _, email := range []string{b.email, " " + strings.ToUpper(b.email)} {
				for _, address := range []string{b.address, id.New(id.Log)} {
					_, err := b.Login(t.Context(), email, p, Origin{Address: address})
					b.refused(t, err, 15*time.Minute)
				}
			}
		}
		b.register(t, "other-"+b.email)
		if _, err := b.Login(t.Context(), "other-"+b.email, password, b.from()); err != nil {
			t.Errorf("another account from the same address: %v", err)
		}
	})
}

// TestLimits_DelayGrows: an address does, twice as long with each attempt that was
// refused, up to an hour.
func TestLimits_DelayGrows(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		b := setupLimits(t, k)
		b.charge(t, loginsPerAddress, 100)
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
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		b := setupLimits(t, k)
		good := func() {
			t.Helper()
			if _, err := b.Login(t.Context(), b.email, password, b.from()); err != nil {
				t.Fatal(err)
			}
		}
		b.charge(t, loginsPerAddress, 89) // of 100
		for range 12 {                    // more than either limit has left
			good()
		}
		b.guess(t, 9)
		good() // nor is a good one a pardon for the bad ones before it
		b.guess(t, 1)
		_, err := b.Login(t.Context(), b.email, password, b.from())
		b.refused(t, err, 15*time.Minute)
	})
}

func TestLimits_AddressOverManyAccounts(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		b := setupLimits(t, k)
		b.charge(t, loginsPerAddress, 80)
		for i := range 20 {
			if _, err := b.Login(t.Context(), fmt.Sprintf("%d-%s", i, b.email), password,
				b.from()); !errs.Is(err, errs.BadCredentials) {
				t.Fatalf("account %d: %v", i, err)
			}
		}
		_, err := b.Login(t.Context(), b.email, password, b.from())
		b.refused(t, err, 15*time.Minute)
		if _, err := b.Login(t.Context(), b.email, password, Origin{Address: id.New(id.Log)}); err != nil {
			t.Errorf("from another address: %v", err)
		}
	})
}

func TestLimits_RegistrationsPerAddress(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		b := setupLimits(t, k) // the first
		b.charge(t, registersPerAddress, 179)
		answers := atOnce(30, func(int) error {
			_, err := b.Register(t.Context(), b.email, password, "Ada", b.from())
			return err
		})
		if diff := cmp.Diff(map[string]int{"EMAIL_TAKEN": 20, "RATE_LIMITED": 10}, answers); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		_, err := b.Register(t.Context(), "other-"+b.email, password, "Ada", b.from())
		b.refused(t, err, time.Hour)
		if _, err := b.Register(t.Context(), "other-"+b.email, password, "Ada", Origin{Address: id.New(id.Log)}); err != nil {
			t.Errorf("from another address: %v", err)
		}
	})
}

func TestLimits_AreExactConcurrently(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		b := setupLimits(t, k)
		answers := atOnce(30, func(int) error {
			_, err := b.Login(t.Context(), b.email, "a wrong password", b.from())
			return err
		})
		if diff := cmp.Diff(map[string]int{"BAD_CREDENTIALS": 10, "RATE_LIMITED": 20}, answers); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
}

func TestLimits_CanBeDisabled(t *testing.T) {
	t.Parallel()
	k := dbtest.Redis(t, "")
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)), k)
	b.Limits.Off = true
	b.register(t, b.email)
	b.guess(t, 12)
	if _, err := b.Login(t.Context(), b.email, password, b.from()); err != nil {
		t.Error(err)
	}
	if keys, err := k.Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("Redis holds %v: %v", keys, err)
	}
}

func TestLimits_FailOpen(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		b := setupLimits(t, k)
		b.guess(t, 12)
		if _, err := b.Login(t.Context(), b.email, password, b.from()); err != nil {
			t.Error(err)
		}
	})
}

func TestLimits_CountersExpireAndAreAnonymous(t *testing.T) {
	t.Parallel()
	k := dbtest.Redis(t, "")
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)), k)
	b.email, b.address = "ada@example.com", "192.0.2.77"
	b.register(t, b.email)
	b.guess(t, 1)
	if _, err := b.Login(t.Context(), b.email, password, b.from()); err != nil {
		t.Fatal(err)
	}
	keys, err := k.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 3 {
		t.Fatalf("Redis holds %v, want one key a limit: %v", keys, err)
	}
	for _, key := range keys {
		if ttl := k.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > time.Hour {
			t.Errorf("%s lives for %s", key, ttl)
		}
		if strings.Contains(key, "ada") || strings.Contains(key, "example") || strings.Contains(key, "192.0.2") {
			t.Errorf("%s says of whom", key)
		}
	}
}
