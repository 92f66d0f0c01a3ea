package edit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// tagged creates a link with each of the lists of tags.
func (b *bundle) tagged(t *testing.T, tags ...string) (links []*link.Link) {
	t.Helper()
	for i, names := range tags {
		l := b.Make(t,
			creation.Input{URL: fmt.Sprintf("https://example.com/tagged/%d", i),
				Fields: linkfield.Change{Tags: optional.Set(strings.Fields(names))}})
		links = append(links, l)
	}
	return links
}

func (b *bundle) replace(t *testing.T, to *string, from ...string) edit.Replaced {
	t.Helper()
	return must.Value(b.Edit.ReplaceTags(t.Context(), b.Mine, from, to))(t)
}

func (b *bundle) tagsOf(t *testing.T, links []*link.Link) (all []string) {
	t.Helper()
	for _, l := range links {
		all = append(all, strings.Join(b.Tags(t, l), " "))
	}
	return all
}

func TestReplaceTags_RenamesMergesAndRemoves(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		before := []string{"a", "a b", "b z", "c", "A", ""}
		links := b.tagged(t, before...)
		must.Value(b.Edit.Delete(t.Context(), b.Mine, links[1].ID))(t)
		theirs, _, err := b.Create(t.Context(), b.Foreign,
			creation.Input{URL: "https://example.com/", Fields: linkfield.Change{Tags: optional.Set([]string{"a"})}})
		must.NoError(t, err)
		for _, c := range []struct {
			name    string
			from    []string
			to      *string
			changed int
			want    []string
		}{
			{"rename", []string{" a "}, new("x"), 2, []string{"x", "b x", "b z", "c", "A", ""}},
			{"merge into a third", []string{"b", "z", "c"}, new("m"), 3, []string{"x", "m x", "m", "m", "A", ""}},
			{"merge into one of them", []string{"x", "m", "x"}, new("m"), 2, []string{"m", "m", "m", "m", "A", ""}},
			{"to itself", []string{"m"}, new("m"), 0, []string{"m", "m", "m", "m", "A", ""}},
			{"no link has it", []string{"a"}, nil, 0, []string{"m", "m", "m", "m", "A", ""}},
			{"remove", []string{"m", "A"}, nil, 5, []string{"", "", "", "", "", ""}},
		} {
			b.Tick()
			got := b.replace(t, c.to, c.from...)
			if got.Changed != c.changed || got.Remaining != 0 || (got.OperationID != nil) != (c.changed > 0) {
				t.Errorf("%s: %+v", c.name, got)
			}
			wanttest.Equal(t, c.want, b.tagsOf(t, links), "%s", c.name)
		}
		if got := must.Value(b.TagsOf(t.Context(), b.Foreign, theirs.ID))(t)[theirs.ID]; !slices.Equal(got,
			[]string{"a"}) {
			t.Errorf("a link of another workspace has %v", got)
		}
		if v := b.AllVersions(t, links[0]); len(v) != 4 || v[0].Cause != link.CauseUpdated || v[0].OperationID == nil ||
			v[0].ActorID != b.Me {
			t.Errorf("versions: %+v", v)
		}
		if l := b.Reload(t, links[1]); l.DeletedAt == nil {
			t.Error("the link is no longer deleted")
		}
		b.ExpectConsistent(t)
	})
}

func TestReplaceTags_RecordsEachCall(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.tagged(t, "a", "a b")
		b.replace(t, new("new"), "b", "a")
		b.replace(t, new("new"), "a", "b")
		b.replace(t, nil, "new")
		var events []*audit.Event
		must.NoError(t, b.DB.NewSelect().Model(&events).Where("action = ?", audit.TagsReplaced).Order("id").
			Scan(db.AsSystem(t.Context())))
		got := []map[string]any{}
		for _, e := range events {
			var details map[string]any
			must.NoError(t, json.Unmarshal([]byte(e.Details), &details))
			got = append(got, details)
			if e.TargetID != b.Mine.ID() || e.ActorID != b.Me {
				t.Errorf("%+v", e)
			}
		}
		want := []map[string]any{
			{"from": []any{"a", "b"}, "to": "new", "changed": 2.0}, {"from": []any{"new"}, "to": nil, "changed": 2.0},
		}
		wanttest.Equal(t, want, got, "difference")
	})
}

func TestReplaceTags_RefusesInvalid(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		long := strings.Repeat("x", 51)
		for name, c := range map[string]struct {
			from  []string
			to    *string
			field string
		}{
			"none": {nil, new("a"), "from"}, "too many": {slices.Repeat([]string{"a"}, 21), nil, "from"},
			"blank": {[]string{" "}, nil, "from.0"},
			"long":  {[]string{long}, nil, "from.0"}, "no text": {[]string{"\x00"},
				nil, "from.0"},
			"to blank": {[]string{"a"}, new(""), "to"}, "to long": {[]string{"a"}, &long, "to"},
		} {
			_, err := b.Edit.ReplaceTags(t.Context(), b.Mine, c.from, c.to)
			if !errs.Is(err, errs.InvalidInput) || strings.Join(errs.From(err).Field, ".") != c.field {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestReplaceTags_TakesSeveralCalls for more than MaxBatch links, which revertOperation undoes
// together. Webhooks follow with the last one.
func TestReplaceTags_TakesSeveralCalls(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const extra = 30
		b.Quota.Default = 2 * link.MaxBatch
		in := urls(0, link.MaxBatch+extra)
		for i, one := range in {
			one.Fields.Tags = optional.Set([]string{[]string{"a", "b"}[i%2], "own"})
		}
		in[link.MaxBatch].Fields.Tags.To = []string{"a", "b", "own"} // one of the remaining, which counts once
		var links []*link.Link
		for _, chunk := range [][]*creation.Input{in[:link.MaxBatch], in[link.MaxBatch:]} {
			for _, r := range b.MakeMany(t, link.AllOrNothing, chunk...) {
				links = append(links, r.Link)
			}
		}
		before := b.tagsOf(t, links)
		var operations []string
		for i, want := range []edit.Replaced{{Changed: link.MaxBatch, Remaining: extra}, {Changed: extra}, {}} {
			got := b.replace(t, new("c"), "a", "b")
			if got.Changed != want.Changed || got.Remaining != want.Remaining {
				t.Errorf("call %d: %+v, want %+v", i, got, want)
			}
			operations = append(operations, optional.Value(got.OperationID))
			if n := len(b.followed); n != i {
				t.Errorf("call %d: webhooks followed %d times", i, n)
			}
		}
		if operations[0] == "" || operations[1] != operations[0] || operations[2] != "" {
			t.Errorf("operations %q", operations)
		}
		wanttest.Equal(t, slices.Repeat([]string{"mine[a b]c"}, 2), b.followed, "webhooks")
		for i, tags := range b.tagsOf(t, links) {
			if tags != "c own" {
				t.Fatalf("link %d has the tags %q", i, tags)
			}
		}
		if first := b.undo(t, operations[0]); first.Remaining != extra || len(first.Results) != link.MaxBatch {
			t.Errorf("undo: %d results, %d remain", len(first.Results), first.Remaining)
		}
		if second := b.undo(t, operations[0]); second.Remaining != 0 {
			t.Errorf("second undo: %d remain", second.Remaining)
		}
		wanttest.Equal(t, before, b.tagsOf(t, links), "undone")
	})
}

// TestReplaceTags_IsUndoneAgain when the same tags were replaced again on the day.
func TestReplaceTags_IsUndoneAgain(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		links := b.tagged(t, "a", "a", "b")
		for round := range 3 {
			b.Tick()
			operationID := *b.replace(t, new("c"), "a").OperationID
			b.Change(t, links[2], linkfield.Change{Tags: to([]string{"a"})}) // after the first call
			b.replace(t, new("c"), "a")
			b.Tick()
			undo := b.undo(t, operationID)
			again := b.undo(t, operationID)
			for linkID, code := range undone(undo) {
				if code != "" || undone(again)[linkID] != "" {
					t.Errorf("round %d: %s, then %s", round, code, undone(again)[linkID])
				}
			}
			if diff := cmp.Diff([]string{"a", "a", "a"}, b.tagsOf(t, links)); diff != "" || undo.Remaining != 0 {
				t.Errorf("round %d: %d remain (-want +got):\n%s", round, undo.Remaining, diff)
			}
		}
		operationID := *b.replace(t, new("c"), "a").OperationID
		b.Change(t, links[0], linkfield.Change{Title: to(new("since"))})
		want := map[string]string{links[0].ID: "CONFLICT", links[1].ID: "", links[2].ID: ""}
		wanttest.Equal(t, want, undone(b.undo(t, operationID)), "changed since")
	})
}

// TestReplaceTags_IsOneTransaction with the webhooks.
func TestReplaceTags_IsOneTransaction(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		links := b.tagged(t, "a")
		broken := errors.New("broken")
		b.Edit.ReplaceWebhookTags = func(context.Context, bun.Tx, workspace.Membership, []string, *string) error {
			return broken
		}
		if _, err := b.Edit.ReplaceTags(t.Context(), b.Mine, []string{"a"}, new("c")); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		if got := b.tagsOf(t, links); got[0] != "a" {
			t.Errorf("the link has the tags %q", got)
		}
	})
}

// TestReplaceTags_LosesNoTag that concurrent updates give links.
func TestReplaceTags_LosesNoTag(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		links := b.tagged(t, slices.Repeat([]string{"old"}, 100)...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var updates sync.WaitGroup
		for i, l := range links {
			updates.Go(func() {
				c := linkfield.Change{ID: l.ID, Tags: to([]string{"old", fmt.Sprint("own", i)})}
				if _, err := b.Edit.Update(ctx, b.Mine, c); err != nil {
					t.Error(err)
				}
			})
		}
		done := make(chan struct{})
		go func() {
			updates.Wait()
			close(done)
		}()
		for running := true; running; {
			select {
			case <-done:
				running = false // and replace a last time
			default:
			}
			if _, err := b.Edit.ReplaceTags(ctx, b.Mine, []string{"old"}, new("new")); err != nil {
				t.Error(err)
				break
			}
		}
		<-done
		for i, tags := range b.tagsOf(t, links) {
			if want := fmt.Sprint("new own", i); tags != want {
				t.Errorf("tags %q, want %q", tags, want)
			}
		}
	})
}
