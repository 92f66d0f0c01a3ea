package edit_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// operate creates links in one operation.
func (b *bundle) operate(t *testing.T, operationID string, in ...*creation.Input) []link.Result {
	t.Helper()
	results := must.Value(b.CreateMany(t.Context(), b.Mine, creation.Batch{Links: in, OperationID: operationID}))(t)
	return results
}

func (b *bundle) updateMany(t *testing.T, changes ...linkfield.Change) []link.Result {
	t.Helper()
	results := must.Value(b.Edit.UpdateMany(t.Context(), b.Mine, changes, link.SkipFailed))(t)
	return results
}

func (b *bundle) undo(t *testing.T, operationID string) edit.Undo {
	t.Helper()
	undo := must.Value(b.Edit.RevertOperation(t.Context(), b.Mine, operationID))(t)
	return undo
}

// undone returns the outcome of undoing, by the links' ids: the code of an error, or nothing.
func undone(u edit.Undo) map[string]string {
	all := map[string]string{}
	for i, r := range u.Results {
		all[u.LinkIDs[i]] = ""
		if r.Err != nil {
			all[u.LinkIDs[i]] = errs.From(r.Err).Kind.Code()
		}
	}
	return all
}

// state describes a link in the database with its tags.
func (b *bundle) state(t *testing.T, l *link.Link) link.Snapshot {
	t.Helper()
	return *b.Reload(t, l).Snapshot(b.Tags(t, l))
}

// TestOperation_IsRecorded in the newest version, superseded versions and events of changed links
// only.
func TestOperation_IsRecorded(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		single := b.Make(t, creation.Input{URL: "https://example.com/single"})
		first := id.New(id.Operation)
		created := b.operate(t, first, urls(0, 3)...)
		if got := optional.Value(link.OperationOf(created)); got != first {
			t.Errorf("creation: operation %q, want %q", got, first)
		}
		if got := link.OperationOf(b.operate(t, id.New(id.Operation), urls(0, 3)...)); got != nil {
			t.Errorf("links that exist: operation %q", *got)
		}
		l, other := created[0].Link, created[1].Link
		second := optional.Value(
			link.OperationOf(b.updateMany(t, linkfield.Change{ID: l.ID, Title: to(new("b"))},
				linkfield.Change{ID: other.ID})))
		if !id.Valid(id.Operation, second) || second == first {
			t.Errorf("update: operation %q", second)
		}
		if got := link.OperationOf(b.updateMany(t, linkfield.Change{ID: l.ID, Title: to(new("b"))},
			linkfield.Change{ID: "unknown"})); got != nil {
			t.Errorf("an update without effect: operation %q", *got)
		}
		b.Change(t, l, linkfield.Change{Title: to(new("c"))})
		third := optional.Value(link.OperationOf(b.Remove(t, l.ID, other.ID)))
		if got := link.OperationOf(b.Remove(t, l.ID, other.ID)); got != nil {
			t.Errorf("a deletion without effect: operation %q", *got)
		}
		revival := id.New(id.Operation)
		if got := optional.Value(link.OperationOf(b.operate(t, revival, urls(0, 1)...))); got != revival {
			t.Errorf("revival: operation %q, want %q", got, revival)
		}
		for _, c := range []struct {
			link *link.Link
			want []string // from version 1
		}{
			{single, []string{""}}, {l, []string{first, second, "", third, revival}}, {other, []string{first, third}},
		} {
			versions := b.AllVersions(t, c.link)
			var got []string
			for i := range versions {
				got = append(got, optional.Value(versions[len(versions)-1-i].OperationID))
			}
			wanttest.Equal(t, c.want, got, "operations of versions")
			got = nil
			for _, e := range b.Events(t, 9) {
				if e.TargetID == c.link.ID {
					got = append(got, optional.Value(e.OperationID))
				}
			}
			wanttest.Equal(t, c.want, got, "operations of events")
		}
	})
}

// TestOperation_RepeatedCallHasTheSame: a call with an idempotency key is one operation.
func TestOperation_RepeatedCallHasTheSame(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, n := range []int{1, 3} {
			key, operations := fmt.Sprint("key ", n), map[string]bool{}
			for range 3 {
				results := must.Value(b.CreateMany(t.Context(), b.Mine, creation.Batch{
					Links: urls(10*n, 10*n+n), IdempotencyKey: &key, OperationID: id.New(id.Operation),
				}))(t)
				operations[optional.Value(link.OperationOf(results))] = true
			}
			if len(operations) != 1 || operations[""] {
				t.Errorf("operations %v", operations)
			}
		}
	})
}

// TestRevertOperation_UndoesAnUpdate of a thousand links, except for three that have changed since.
func TestRevertOperation_UndoesAnUpdate(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = link.MaxBatch
		var links []*link.Link
		var changes []linkfield.Change
		before := map[string]link.Snapshot{}
		for _, r := range b.operate(t, id.New(id.Operation), urls(0, link.MaxBatch)...) {
			links = append(links, r.Link)
			before[r.Link.ID] = *r.Link.Snapshot(nil)
			changes = append(changes, linkfield.Change{
				ID: r.Link.ID, Title: to(new("changed")), Tags: to([]string{"changed"}), MaxClicks: to(new(int64(7))),
			})
		}
		b.Tick()
		operationID := *link.OperationOf(b.updateMany(t, changes...))
		b.Tick()
		since := map[string]string{}
		for _, l := range []*link.Link{links[0], links[500]} {
			b.Change(t, l, linkfield.Change{Title: to(new("changed again"))})
			since[l.ID] = "CONFLICT"
		}
		b.Remove(t, links[999].ID)
		since[links[999].ID] = "CONFLICT"
		for _, l := range []*link.Link{links[0], links[500], links[999]} {
			before[l.ID] = b.state(t, l)
		}
		b.Tick()
		undo := b.undo(t, operationID)
		failed := undone(undo)
		maps.DeleteFunc(failed, func(_, code string) bool { return code == "" })
		wanttest.Equal(t, since, failed, "failures")
		if len(undo.Results) != link.MaxBatch || undo.Remaining != 0 {
			t.Errorf("%d results, %d remain", len(undo.Results), undo.Remaining)
		}
		for _, l := range []*link.Link{links[0], links[1], links[2], links[500], links[998], links[999]} {
			wanttest.Equal(t, before[l.ID], b.state(t, l), "difference")
		}
		undone := b.AllVersions(t, links[1])[0]
		if undone.Cause != link.CauseReverted || optional.Value(undone.OperationID) != operationID ||
			undone.ActorID != b.Me {
			t.Errorf("%+v", undone)
		}
		b.ExpectConsistent(t)
	})
}

// TestRevertOperation_UndoesAChain backwards: a link whose later changes were all undone is in the state
// that the operation left. One that was changed otherwise is not, also if that was undone by hand.
func TestRevertOperation_UndoesAChain(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var operations []string
		did := func(results []link.Result) { operations = append(operations, *link.OperationOf(results)) }
		results := b.operate(t, id.New(id.Operation), urls(0, 2)...)
		l, other := results[0].Link, results[1].Link
		var states []link.Snapshot
		for _, change := range []func(){
			func() { did(results) },
			func() {
				did(b.updateMany(t, linkfield.Change{ID: l.ID, Title: to(new("one")), Tags: to([]string{"one"})},
					linkfield.Change{ID: other.ID, Title: to(new("one"))}))
			},
			func() { did(b.Remove(t, l.ID)) },
			func() {
				did(b.operate(t, id.New(id.Operation), &creation.Input{URL: l.OriginalURL,
					Fields: linkfield.Change{Title: optional.Set(new("two"))}}))
			},
			func() { did(b.updateMany(t, linkfield.Change{ID: l.ID, Title: to(new("three"))})) },
		} {
			change()
			states = append(states, b.state(t, l))
			b.Tick()
		}
		last := b.Change(t, other, linkfield.Change{Title: to(new("by hand"))})
		must.Value(b.Edit.Revert(t.Context(), b.Mine, other.ID, last.Version-1, nil))(t)
		b.Tick()
		for n := len(operations) - 1; n >= 0; n-- {
			for round := range 2 {
				got := undone(b.undo(t, operations[n]))
				if got[l.ID] != "" || n < 2 && got[other.ID] != "CONFLICT" {
					t.Errorf("undoing change %d, round %d: %v", n, round, got)
				}
			}
			b.Tick()
			if n > 0 {
				wanttest.Equal(t, states[n-1], b.state(t, l), "the state before change %d", n)
			}
			if deleted := b.Reload(t, l).DeletedAt != nil; deleted != (n == 0 || n == 3) {
				t.Errorf("before change %d: deleted %t", n, deleted)
			}
		}
		var actions []audit.Action
		for _, e := range b.Events(t, b.Reload(t, l).Version+b.Reload(t, other).Version) {
			if e.TargetID == l.ID {
				actions = append(actions, e.Action)
			}
		}
		wanttest.Equal(t, []audit.Action{
			audit.LinkCreated, audit.LinkUpdated, audit.LinkDeleted, audit.LinkRestored, audit.LinkUpdated,
			audit.LinkUpdated, audit.LinkDeleted, audit.LinkRestored, audit.LinkUpdated, audit.LinkDeleted,
		}, actions, "events")
		again := *link.OperationOf(b.updateMany(t, linkfield.Change{ID: other.ID, Title: to(new("again"))}))
		b.undo(t, again)
		if got := undone(b.undo(t, operations[1])); got[other.ID] != "CONFLICT" {
			t.Errorf("a link with a change by hand, and one that was undone: %v", got)
		}
		b.ExpectConsistent(t)
	})
}

// blockedHost is the only host that the operator has blocked.
type blockedHost string

func (b blockedHost) Blocked(bun.IDB, ...string) (db.Lookup, func() map[string]bool) {
	return db.Lookup{}, func() map[string]bool { return map[string]bool{string(b): true} }
}

// TestRevertOperation_RunsAllChecks again: a link cannot be restored to a blocked host, or against
// the operator.
func TestRevertOperation_RunsAllChecks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var ids []string
		for i, host := range []string{"blocked.example.com", "example.com", "disabled.example.com"} {
			l := b.Make(t, creation.Input{URL: fmt.Sprintf("https://%s/%d", host, i), Strategy: new(link.Random)})
			ids = append(ids, l.ID)
		}
		moved := *link.OperationOf(b.updateMany(t, linkfield.Change{ID: ids[0], URL: to("https://example.com/moved")}))
		deletion := *link.OperationOf(b.Remove(t, ids[1:]...))
		b.Destinations.Blocklist = blockedHost("blocked.example.com")
		b.Set(t, &link.Link{ID: ids[2]}, "disabled_at = ?", noon)
		got := undone(b.undo(t, moved))
		for linkID, code := range undone(b.undo(t, deletion)) {
			got[linkID] = code
		}
		want := map[string]string{ids[0]: "UNSAFE_URL", ids[1]: "", ids[2]: "UNSAFE_URL"}
		wanttest.Equal(t, want, got, "difference")
	})
}

// TestRevertOperation_OfTheWorkspaceOnly and of the last 30 days only.
func TestRevertOperation_OfTheWorkspaceOnly(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		operationID := id.New(id.Operation)
		l := b.operate(t, operationID, urls(0, 1)...)[0].Link
		refuse := func(what string, m workspace.Membership, operationID string) {
			t.Helper()
			linktest.Refused(b.Edit.RevertOperation(t.Context(), m, operationID))(t, errs.NotFound, "%s", what)
		}
		refuse("of another workspace", b.Foreign, operationID)
		refuse("unknown", b.Mine, id.New(id.Operation))
		refuse("no id", b.Mine, "opn_x\x00")
		refuse("the largest id", b.Mine, "opn_7zzzzzzzzzzzzzzzzzzzzzzzzz")
		refuse("an event's id", b.Mine, b.Events(t, 1)[0].ID)
		b.Now = noon.Add(audit.FeedRetention)
		refuse("30 days old", b.Mine, operationID)
		b.Now = b.Now.Add(-time.Second)
		if got := undone(b.undo(t, operationID)); got[l.ID] != "" || b.Reload(t, l).DeletedAt == nil {
			t.Errorf("within 30 days: %v", got)
		}
	})
}

// TestRevertOperation_UndoesRevival: a link that a call has restored with other fields is as before
// it.
func TestRevertOperation_UndoesRevival(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a",
			Fields: linkfield.Change{Title: optional.Set(new("old")), Tags: optional.Set([]string{"old"}),
				ExternalID: optional.Set(new("1"))}})
		purged := b.Make(t, creation.Input{URL: "https://example.com/purged"})
		b.Remove(t, purged.ID)
		b.Now = noon.Add(linktest.Tombstones)
		b.PurgeEnded(t)
		b.Remove(t, l.ID)
		before := b.state(t, l)
		creating := id.New(id.Operation)
		b.operate(t, creating,
			&creation.Input{URL: l.OriginalURL, Fields: linkfield.Change{ExternalID: optional.Set(new("1")),
				Title: optional.Set(new("new")), Tags: optional.Set([]string{"new"})}},
			&creation.Input{URL: purged.OriginalURL})
		wanttest.Equal(t, map[string]string{l.ID: "", purged.ID: ""}, undone(b.undo(t, creating)), "outcomes")
		wanttest.Equal(t, before, b.state(t, l), "after createLinks")
		if b.Reload(t, purged).DeletedAt == nil {
			t.Error("the link that was purged is not deleted")
		}
		upserted, err := b.UpsertMany(t.Context(), b.Mine, []*creation.Input{{URL: l.OriginalURL,
			Fields: linkfield.Change{ExternalID: optional.Set(new("1")), Title: to(new("new")), Note: to(new("new")),
				Tags: to([]string{"new"})}}},
			link.SkipFailed)
		if err != nil || upserted[0].Err != nil {
			t.Fatal(err, upserted)
		}
		b.undo(t, *link.OperationOf(upserted))
		wanttest.Equal(t, before, b.state(t, l), "after upsertLinks")
		b.ExpectConsistent(t)
	})
}

// TestRevertOperation_KnowsLaterUndo finds an undo with events after the range of the operation.
func TestRevertOperation_KnowsLaterUndo(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/"})
		operationID := *link.OperationOf(b.updateMany(t, linkfield.Change{ID: l.ID, Title: to(new("a"))}))
		b.undo(t, operationID)
		later := id.From(id.Event, time.Now().Add(time.Hour))
		must.Value(b.DB.NewUpdate().Model((*audit.Event)(nil)).Set("id = ?", later).Where("target_id = ?", l.ID).
			Where("version = 3").
			Exec(db.AsSystem(t.Context())))(t)
		wanttest.Equal(t, map[string]string{l.ID: ""}, undone(b.undo(t, operationID)), "difference")
	})
}
