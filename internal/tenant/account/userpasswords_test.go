package account

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

const examplePassword = "correct horse battery staple"

func TestCheckPassword_EnforcesRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		password string
		good     bool
	}{
		"empty":                       {"", false},
		"7 characters":                {"q7-xk2v", false},
		"8 characters":                {"q7-xk2vp", true},
		"7 characters of 14 bytes":    {strings.Repeat("ä", 7), false},
		"8 characters of 16 bytes":    {"äöüßéèçñ", true},
		"1024 bytes":                  {strings.Repeat("x", 1024), true},
		"1025 bytes":                  {strings.Repeat("x", 1025), false},
		"1024 bytes in 512":           {strings.Repeat("ä", 512), true},
		"1026 bytes in 513":           {strings.Repeat("ä", 513), false},
		"common":                      {"password", false},
		"common in mixed case":        {"PassWord123", false},
		"common and more":             {"password of mine", true},
		"the address":                 {"ada.lovelace@example.com", false},
		"the address in another case": {"Ada.Lovelace@EXAMPLE.com", false},
		"the address and more":        {"ada.lovelace@example.com!", true},
		"only spaces":                 {strings.Repeat(" ", 8), true},
		"NUL inside":                  {"q7-xk\x00vp", true},
	} {
		err := CheckPassword(c.password, "ada.lovelace@example.com")
		if c.good && err != nil || !c.good && !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%s: %.30q: %v, want it accepted: %t", name, c.password, err, c.good)
		}
	}
}

func TestCheckPassword_RefusesCommonPasswords(t *testing.T) {
	t.Parallel()
	list := strings.Split(strings.Trim(commonPasswords, "\n"), "\n")
	if len(list) < 200 || !slices.IsSorted(list) {
		t.Errorf("%d passwords, sorted: %t", len(list), slices.IsSorted(list))
	}
	for _, p := range list {
		if !isCommon(p) || !isCommon(strings.ToUpper(p)) {
			t.Errorf("%s is on the list and yet not common", p)
		}
		if len(p) < minPasswordCharacters || p != strings.TrimSpace(p) {
			t.Errorf("%q never applies", p)
		}
	}
}

func TestPassword_DistinguishesSimilarPasswords(t *testing.T) {
	t.Parallel()
	p := NewUserPasswords(bcrypt.MinCost)
	long := strings.Repeat("x", 72)
	for name, c := range map[string]struct{ password, other string }{
		"beyond 72 bytes":    {long + "one tail", long + "another"},
		"72 bytes and more":  {long + "!", long},
		"1024 bytes":         {strings.Repeat("x", 1023) + "1", strings.Repeat("x", 1023) + "2"},
		"NUL inside":         {"q7-xk\x00vp1", "q7-xk\x00vp2"},
		"NUL at the end":     {"q7-xk2vp\x00", "q7-xk2vp"},
		"space at the start": {" q7-xk2vp", "q7-xk2vp"},
		"space at the end":   {"q7-xk2vp ", "q7-xk2vp"},
		"case":               {"Q7-xk2vp", "q7-xk2vp"},
	} {
		hash := must.Value(p.Hash(t.Context(), c.password, "an address"))(t)
		if must.Value(p.Matches(t.Context(), hash, c.other, "an address"))(t) {
			t.Errorf("%s: another password matches", name)
		}
		if !must.Value(p.Matches(t.Context(), hash, c.password, "an address"))(t) {
			t.Errorf("%s: the password itself does not match", name)
		}
	}
}

// TestPassword_IsOpaqueString of RFC 8265, at registration, log-in and on links.
func TestPassword_IsOpaqueString(t *testing.T) {
	t.Parallel()
	p := NewUserPasswords(bcrypt.MinCost)
	for stored, sent := range map[string]string{
		"p\u00e4sswort lang": "pa\u0308sswort\u00a0lang", "\u3000 \uac00 x\u2009y": "  \u1100\u1161 x y",
		"\u212bngstr\u00f6m": "\u00c5ngstro\u0308m",
	} {
		for _, c := range [][2]string{{stored, sent}, {sent, stored}} {
			hash := must.Value(p.Hash(t.Context(), c[0], "a"))(t)
			if same, err := p.Matches(t.Context(), hash, c[1], "a"); !same || err != nil {
				t.Errorf("%q is not %q: %v", c[1], c[0], err)
			}
		}
	}
	wantError(t, errs.InvalidInput, "4 characters of 7")(CheckPassword("a\u0308o\u0308u\u0308a", "ada@example.com"))
}

// TestPassword_UsesAllBytes: other implementations of bcrypt stop at a zero byte, all of them at 72
// bytes.
func TestPassword_UsesAllBytes(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range 1000 { // one hash in nine has a zero byte
		given := string(prehash(fmt.Sprintf("password %d", i)))
		if len(given) > 72 || strings.Contains(given, "\x00") || seen[given] {
			t.Errorf("password %d is given to bcrypt as %q", i, given)
		}
		seen[given] = true
	}
}

func TestPassword_UsesConfiguredCost(t *testing.T) {
	t.Parallel()
	cheap := NewUserPasswords(bcrypt.MinCost)
	for hash, want := range map[string]int{
		NewUserPasswords(PasswordCost).unknown: 12, cheap.unknown: bcrypt.MinCost,
		must.Value(cheap.Hash(t.Context(), examplePassword, "an address"))(t): bcrypt.MinCost,
	} {
		if got, err := bcrypt.Cost([]byte(hash)); err != nil || got != want || len(hash) != 60 {
			t.Errorf("%s: cost %d, want %d: %v", hash, got, want, err)
		}
	}
	if err := bcrypt.CompareHashAndPassword([]byte(cheap.unknown),
		prehash(examplePassword)); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Errorf("comparing with the hash of an unknown user: %v", err)
	}
}

// TestPassword_AddressesTakeTurns: a flood of log-ins from one address delays one from elsewhere by
// the comparison in progress and one more.
func TestPassword_AddressesTakeTurns(t *testing.T) {
	t.Parallel()
	p := NewUserPasswords(bcrypt.MinCost + 4)
	hash := must.Value(p.Hash(t.Context(), examplePassword, "an address"))(t)
	var done atomic.Int64
	flood := make(chan error, 40)
	for range 40 {
		go func() {
			_, err := p.Matches(t.Context(), hash, examplePassword, "flood")
			done.Add(1)
			flood <- err
		}()
	}
	polltest.Until(t, "the flood waits, or was refused", func() bool {
		used, waiting := p.turns.Stats()
		return waiting >= 8 && done.Load()+int64(waiting)+used >= 40
	})
	before := done.Load()
	if good, err := p.Matches(t.Context(), hash, examplePassword, "victim"); err != nil || !good {
		t.Errorf("the victim: %t, %v", good, err)
	}
	if passed := done.Load() - before; passed > 40-8 {
		t.Errorf("%d log-ins of the flood passed the victim", passed)
	}
	refused := 0
	for range 40 {
		if err := <-flood; errs.Is(err, errs.RateLimited) {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	if refused < 40-17-int(before) {
		t.Errorf("%d of 40 log-ins at once were refused", refused)
	}
}

// TestPassword_StrangersHaveHalf of the turns and of the time at most, whose networks take turns,
// while log-ins wait for no more than the hashes in progress.
func TestPassword_StrangersHaveHalf(t *testing.T) {
	t.Parallel()
	for _, turns := range []int64{1, 2, 4} {
		synctest.Test(t, func(t *testing.T) {
			var hashed atomic.Int64
			p := newUserPasswords(bcrypt.MinCost, turns, func(password string, _ int) (string, error) {
				time.Sleep(time.Second)
				if password == "new" {
					hashed.Add(1)
				}
				return "", nil
			})
			began, ended := time.Now(), atomic.Bool{}
			var all sync.WaitGroup
			for i := range 64 {
				all.Go(func() {
					for !ended.Load() {
						if _, err := p.HashNew(t.Context(), "new", fmt.Sprint("site ", i%3)); err != nil {
							time.Sleep(time.Second)
						}
					}
				})
			}
			for range 20 {
				synctest.Wait()
				start := time.Now()
				_, err := p.Hash(t.Context(), "known", "an address")
				if took := time.Since(start); err != nil || took > 2*time.Second {
					t.Errorf("%d turns: a log-in took %s: %v", turns, took, err)
				}
			}
			start := time.Now()
			_, err := p.HashNew(t.Context(), "new", "another site")
			if waited := time.Since(start); err != nil || waited > 12*time.Second {
				t.Errorf("%d turns: a registration from elsewhere took %s: %v", turns, waited, err)
			}
			most := float64(turns)*time.Since(began).Seconds()/2 + 1
			if got := hashed.Load(); float64(got) > most {
				t.Errorf("%d turns: %d hashes of strangers, want %.0f at most", turns, got, most)
			}
			ended.Store(true)
			all.Wait()
		})
	}
}
