package creation

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
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
		b.Change(t, first[0].Link, linkfield.Change{Title: to(&title)})
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
		b.ExpectUsed(t, 2)
	})
}

// TestIdempotencyKey_Conflicts with another input of its actor only.
func TestIdempotencyKey_Conflicts(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		key, in := "key", counted("https://example.com/a")
		must.Value(b.keyed(t, key, in))(t)
		linktest.Refused(b.keyed(t, key, counted("https://example.com/other")))(t, errs.IdempotencyConflict,
			"another input")
		creator := workspacetest.Key(t, b.DB, b.Mine.ID(), string(workspace.CreateLinks), string(workspace.ReadStats))
		for i, m := range []workspace.Membership{
			b.Foreign, workspacetest.Join(t, b.DB, b.Mine.ID(), workspace.Editor),
			creator, creator, // which reads no links, and gets the result of its own call again
		} {
			in := counted(fmt.Sprint("https://example.com/", min(i, 2)))
			results, err := b.CreateMany(t.Context(), m, Batch{Links: []*Input{in}, IdempotencyKey: &key})
			if err != nil || !results[0].Created {
				t.Errorf("actor %d: %+v, %v", i, results, err)
			}
		}
		for _, key := range []string{" ", strings.Repeat("k", 256), "a\x00b"} {
			linktest.Refused(b.keyed(t, key, in))(t, errs.InvalidInput, "the key %q", key)
		}
		b.ExpectUsed(t, 3)
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
		b.ExpectRows(t, 0, "idempotency_keys", "TRUE")
	})
}

// TestIdempotencyKey_Concurrently: of many calls with one key one makes the links, and all hear of
// the same ones.
func TestIdempotencyKey_Concurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		said := linktest.AtOnce(30, func(int) string {
			r, err := b.keyed(t, "key", counted("https://example.com/a"), counted("https://example.com/a"))
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(r[0].Link.ID, r[0].Created, r[1].Link.ID, r[1].Created)
		})
		if len(said) != 1 || b.Used(t) != 2 {
			t.Errorf("answers %v, %d links used; want one answer and two links", said, b.Used(t))
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
		in := Input{URL: "https://example.com/a", Fields: linkfield.Change{Routing: to(withPassword("password 1"))}}
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
