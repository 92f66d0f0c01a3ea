package creation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

func (b *bundle) keyed(t *testing.T, key string, in ...*Input) ([]link.Result, error) {
	t.Helper()
	return b.CreateMany(t.Context(), b.Mine, Batch{Links: in, IdempotencyKey: &key})
}

func counted(url string) *Input { return &Input{URL: url, Strategy: new(link.Counter)} }

func TestIdempotencyKey_ReturnsTheSavedResults(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		in := []*Input{counted("https://example.com/a"), {URL: "nothing"}, {URL: "https://example.com/b"},
			{URL: "https://example.com/b"}}
		first := must.Value(b.keyed(t, "key", in...))(t)
		title := "later"
		b.Change(t, first[0].Link, link.Change{Title: to(&title)})
		again := must.Value(b.keyed(t, "key", in...))(t)
		if diff := cmp.Diff(outcomes(first), outcomes(again)); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
		for i := range first {
			if first[i].Link != nil && first[i].Link.ID != again[i].Link.ID {
				t.Errorf("row %d is another link", i)
			}
		}
		if got := errs.From(again[1].Err); got.Message != errs.From(first[1].Err).Message ||
			!cmp.Equal(got.Field, []string{"url"}) {
			t.Errorf("the failed row says %q at %v", got.Message, got.Field)
		}
		if *again[0].Link.Title != "later" {
			t.Error("the link is not shown as it is now")
		}
		if got := b.Used(t); got != 2 {
			t.Errorf("%d links used, want 2", got)
		}
	})
}

func TestIdempotencyKey_Conflicts(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		key, in := "key", counted("https://example.com/a")
		must.Value(b.keyed(t, key, in))(t)
		linktest.Refused(b.keyed(t, key, counted("https://example.com/other")))(t, errs.IdempotencyConflict,
			"another input")
		results, err := b.CreateMany(t.Context(), b.Foreign,
			Batch{Links: []*Input{counted("https://example.com/other")},
				IdempotencyKey: &key})
		if err != nil || !results[0].Created {
			t.Errorf("another workspace: %v", err)
		}
		for name, key := range map[string]string{"empty": " ", "too long": strings.Repeat("k", 256),
			"hostile": "a\x00b"} {
			t.Run(name, func(t *testing.T) {
				linktest.Refused(b.keyed(t, key, in))(t, errs.InvalidInput, "a key that is %s", name)
			})
		}
		if got := b.Used(t); got != 1 {
			t.Errorf("%d links used, want 1", got)
		}
	})
}

func TestIdempotencyKey_SavesOnlySuccess(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = 0
		results, err := b.keyed(t, "key", counted("https://example.com/a"))
		if err != nil || !errs.Is(results[0].Err, errs.QuotaExceeded) {
			t.Fatalf("%v, %v", results, err)
		}
		b.Quota.Default = 1
		if results, err = b.keyed(t, "key", counted("https://example.com/b")); err != nil || !results[0].Created {
			t.Errorf("after a failure: %v, %v", results, err)
		}
		// A call that returns an existing link is a success too.
		b.Quota.Default = 2
		b.create(t, Input{URL: "https://example.com/there"})
		for range 2 {
			if results, err = b.keyed(t, "there", &Input{URL: "https://example.com/there"}); err != nil ||
				results[0].Err != nil ||
				results[0].Created {
				t.Errorf("of a link that is there: %v, %v", results, err)
			}
		}
		linktest.Refused(b.keyed(t, "there", &Input{URL: "https://example.com/elsewhere"}))(t, errs.IdempotencyConflict,
			"another input")
	})
}

func TestIdempotencyKey_ExpiresAfterADay(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		must.Value(b.keyed(t, "key", counted("https://example.com/a")))(t)
		b.Now = noon.Add(24*time.Hour - time.Microsecond)
		linktest.Refused(b.keyed(t, "key", counted("https://example.com/b")))(t, errs.IdempotencyConflict,
			"before a day has passed")
		b.Now = noon.Add(24 * time.Hour)
		results, err := b.keyed(t, "key", counted("https://example.com/b"))
		if err != nil || !results[0].Created {
			t.Fatalf("after a day: %v, %v", results, err)
		}
		b.Now = noon.Add(48 * time.Hour)
		must.NoError(t, b.CleanUp(t.Context()))
		if n, err := b.DB.NewSelect().Table("idempotency_keys").Count(db.AsSystem(t.Context())); err != nil || n != 0 {
			t.Errorf("%d keys are kept after the clean-up: %v", n, err)
		}
	})
}

// TestIdempotencyKey_Concurrently: of many calls with one key one makes the links, and all hear of
// the same ones.
func TestIdempotencyKey_Concurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var mu sync.Mutex
		ids := map[string]int{}
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				results, err := b.keyed(t, "key", counted("https://example.com/a"), counted("https://example.com/a"))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[fmt.Sprint(results[0].Link.ID, results[0].Created, results[1].Link.ID, results[1].Created)]++
			})
		}
		all.Wait()
		if len(ids) != 1 || b.Used(t) != 2 {
			t.Errorf("answers %v, %d links used; want one answer and two links", ids, b.Used(t))
		}
	})
}

// TestIdempotencyKey_IsPerActor: another member of the workspace may use the same one.
func TestIdempotencyKey_IsPerActor(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		key := "key"
		must.Value(b.keyed(t, key, counted("https://example.com/a")))(t)
		theirs := workspacetest.Join(t, b.DB, b.Mine.ID(), workspace.Editor)
		results, err := b.CreateMany(t.Context(), theirs, Batch{Links: []*Input{counted("https://example.com/b")},
			IdempotencyKey: &key})
		if err != nil || !results[0].Created {
			t.Errorf("%+v, %v", results, err)
		}
		creator := workspacetest.Key(t, b.DB, b.Mine.ID(), string(workspace.CreateLinks), string(workspace.ReadStats))
		for range 2 { // a key that reads no links gets the result of its own call again
			results, err := b.CreateMany(t.Context(), creator,
				Batch{Links: []*Input{counted("https://example.com/c")}, IdempotencyKey: &key})
			if err != nil || !results[0].Created {
				t.Errorf("%+v, %v", results, err)
			}
		}
	})
}

// busy are Passwords that have no turn for a comparison.
type busy struct{ reversible }

func (busy) Matches(context.Context, string, string, ...string) (bool, error) {
	return false, errs.New(errs.RateLimited, "Too many passwords are compared.")
}

// TestIdempotencyKey_SavesNoTransientFailure: a call that has failed only for now can be repeated
// with its key.
func TestIdempotencyKey_SavesNoTransientFailure(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Passwords = reversible{}
		in := Input{URL: "https://example.com/a", Routing: withPassword("password 1")}
		l, _ := b.create(t, in)
		b.Passwords = busy{}
		linktest.Refused(b.keyed(t, "key", &in, counted("https://example.com/b")))(t, errs.RateLimited,
			"without a turn")
		b.Passwords = reversible{}
		again := must.Value(b.keyed(t, "key", &in, counted("https://example.com/b")))(t)
		if diff := cmp.Diff([]string{"there", "created"}, outcomes(again)); diff != "" || again[0].Link.ID != l.ID {
			t.Errorf("%+v (-want +got):\n%s", again[0], diff)
		}
	})
}
