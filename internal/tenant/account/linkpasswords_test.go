package account

import (
	"fmt"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestLinks_RememberRightOnes: a right password of a link is recognized while all turns are taken.
// Neither the same one of another link nor a wrong one is.
func TestLinks_RememberRightOnes(t *testing.T) {
	t.Parallel()
	p := NewLinkPasswords(bcrypt.MinCost)
	hash := must.Value(p.Hash(t.Context(), "", examplePassword, "an account", "ws"))(t)
	other := must.Value(p.Hash(t.Context(), "", examplePassword, "an account", "ws"))(t)
	if hash == other {
		t.Fatal("two links with a password have the same hash")
	}
	for given, want := range map[string]bool{examplePassword: true, "another " + examplePassword: false} {
		if matches, err := p.Matches(t.Context(), hash, given, "a network "+given, "link"); err != nil ||
			matches != want {
			t.Errorf("%q: %t, %v", given, matches, err)
		}
	}
	for i := range p.turns.Capacity {
		must.Value(p.turns.Enter(t.Context(), 1, fmt.Sprint(i)))(t)
	}
	p.turns.MaxWait = 1
	for name, c := range map[string]struct {
		hash, password string
		refused        bool
	}{
		"right":            {hash, examplePassword, false},
		"of another link":  {other, examplePassword, true},
		"wrong":            {hash, "another " + examplePassword, true},
		"of another split": {hash + examplePassword[:1], examplePassword[1:], true},
	} {
		matches, err := p.Matches(t.Context(), c.hash, c.password, "a visitor", "link")
		if (err != nil) != c.refused || matches == c.refused {
			t.Errorf("%s: %t, %v", name, matches, err)
		}
	}
}

// TestLinks_AreCheaper: they take a quarter of the time of an account's, and have the recommended
// cost.
func TestLinks_AreCheaper(t *testing.T) {
	t.Parallel()
	p := NewLinkPasswords(LinkPasswordCost)
	hash := must.Value(p.Hash(t.Context(), "", examplePassword, "an account"))(t)
	if cost := must.Value(bcrypt.Cost([]byte(hash)))(t); cost < 10 || cost != PasswordCost-2 {
		t.Errorf("cost %d", cost)
	}
}

// TestLinks_HashInOneTurn: hashing keeps the present hash of the same password, and never lets its
// account rest.
func TestLinks_HashInOneTurn(t *testing.T) {
	t.Parallel()
	p := NewLinkPasswords(bcrypt.MinCost)
	present := must.Value(p.Hash(t.Context(), "", examplePassword, "an account"))(t)
	p.turns.MaxWait = 1
	for _, given := range []string{"another " + examplePassword, examplePassword, "another " + examplePassword} {
		hash := must.Value(p.Hash(t.Context(), present, given, "an account"))(t)
		if (hash == present) != (given == examplePassword) || !must.Value(compare(hash, given))(t) {
			t.Errorf("%q: %s, before %s", given, hash, present)
		}
	}
}
