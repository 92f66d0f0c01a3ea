package redirect

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// plainPasswords are Passwords that cost nothing, and record the subjects of calls.
type plainPasswords struct {
	mu       sync.Mutex
	subjects [][]string
}

func (p *plainPasswords) Hash(_ context.Context, _, password string, subjects ...string) (string, error) {
	p.record(subjects)
	return "hash of " + password, nil
}

func (p *plainPasswords) Matches(_ context.Context, hash, password string, subjects ...string) (bool, error) {
	p.record(subjects)
	return hash == "hash of "+password, nil
}

func (p *plainPasswords) record(subjects []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subjects = append(p.subjects, subjects)
}

// gated creates a bundle whose gates limit guesses, and a link with the password "right horse".
func gated(t *testing.T, d *db.DB) (b *bundle, l *link.Link, passwords *plainPasswords) {
	t.Helper()
	b, passwords = setup(t, d), &plainPasswords{}
	b.HitQuota = 1 << 40
	b.links.Passwords = passwords
	b.Gates = Gates{Passwords: passwords, Limits: ratelimit.New(b.redis, b.Log, time.Now)}
	password := optional.Set(&routing.Password{Text: "right horse"})
	change := routing.Change{Gate: optional.Set(&routing.GateChange{Password: password})}
	return b, b.link(t, creation.Input{URL: "https://example.com/",
		Fields: linkfield.Change{Routing: optional.Set(&change)}}), passwords
}

// try sends a password from an address, and returns the status.
func (b *bundle) try(t *testing.T, l *link.Link, address, password string) int {
	t.Helper()
	head := http.Header{passwordHeader: {password}}
	return b.visitWith(t, address, http.MethodGet, "/"+l.Code, head).Code
}

// TestGate_GuessesLimitOnlyTheGuesser: after 300 guesses of other networks, each network still has
// one wrong password, and right ones without end.
func TestGate_GuessesLimitOnlyTheGuesser(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, l, passwords := gated(t, d)
		got := map[int]int{}
		for i := range 400 {
			got[b.try(t, l, fmt.Sprintf("203.0.%d.%d:1", i/250, i%250), "wrong horse")]++
		}
		for range 20 {
			got[b.try(t, l, "192.0.2.1:1", "right horse")]++
		}
		for _, password := range []string{"wrong horse", "wrong horse", "right horse"} {
			got[b.try(t, l, "192.0.2.2:1", password)]++
		}
		if diff := cmp.Diff(map[int]int{403: 401, 302: 20, 429: 2}, got); diff != "" {
			t.Errorf("responses (-want +got):\n%s", diff)
		}
		all := passwords.subjects
		if first := all[0]; !slices.Equal(first, []string{b.me, b.mine.ID()}) {
			t.Errorf("subjects of the call that sets the password: %v", first)
		}
		if last := all[len(all)-1]; !slices.Equal(last, []string{"192.0.2.2", l.ID}) {
			t.Errorf("subjects of a comparison: %v", last)
		}
	})
}

// TestGate_LimitsASite: the networks of an IPv6 /48 have four times the guesses of one together,
// also after the guesses of others, and another /48 has its own.
func TestGate_LimitsASite(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, l, _ := gated(t, d)
		for round := range 2 {
			got := map[int]int{}
			for i := range 60 {
				got[b.try(t, l, fmt.Sprintf("[2001:db8:%d:%x::1]:1", round, i), "wrong horse")]++
			}
			got[b.try(t, l, fmt.Sprintf("[2001:db8:%d:ff::1]:1", round), "right horse")]++
			if diff := cmp.Diff(map[int]int{403: 20, 429: 41}, got); diff != "" {
				t.Errorf("responses (-want +got):\n%s", diff)
			}
			for i := range 300 {
				b.try(t, l, fmt.Sprintf("203.0.%d.%d:1", i/250, i%250), "wrong horse")
			}
		}
		if status := b.try(t, l, "[2001:db8:ff::1]:1", "right horse"); status != 302 {
			t.Errorf("another site: %d", status)
		}
	})
}
