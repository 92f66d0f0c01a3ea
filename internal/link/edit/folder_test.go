package edit_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

func (b *bundle) newFolder(t *testing.T, name string) *folder.Folder {
	t.Helper()
	return must.Value(b.Folders.Create(t.Context(), b.Mine, name))(t)
}

// inFolders returns the numbers of links in folders.
func (b *bundle) inFolders(t *testing.T, ids ...string) map[string]int64 {
	t.Helper()
	return must.Value(linklist.NewStore(b.DB, b.Links, time.Now).CountInFolders(t.Context(), b.Mine, ids...))(t)
}

// folderOf returns the folder of a link, as it is stored.
func (b *bundle) folderOf(t *testing.T, l *link.Link) string {
	t.Helper()
	return optional.Value(b.Reload(t, l).FolderID)
}

// TestFolders_HaveLinks: every way to write a link can put it into a folder of its workspace, and
// into no other.
func TestFolders_HaveLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		f, foreign := b.newFolder(t, "mine"), must.Value(b.Folders.Create(t.Context(), b.Foreign, "theirs"))(t)
		created := b.Make(t, creation.Input{URL: "https://example.com/created",
			Fields: linkfield.Change{FolderID: optional.Set(&f.ID)}})
		upserted := must.Value(b.Upsert(t.Context(), b.Mine,
			&creation.Input{URL: "https://example.com/upserted",
				Fields: linkfield.Change{ExternalID: optional.Set(new("1")), FolderID: to(&f.ID)}}))(t).Link
		moved := b.Make(t, creation.Input{URL: "https://example.com/moved"})
		b.Change(t, moved, linkfield.Change{FolderID: to(&f.ID)})
		revived := b.Make(t, creation.Input{URL: "https://example.com/revived"})
		b.Remove(t, revived.ID)
		b.Make(t, creation.Input{URL: "https://example.com/revived",
			Fields: linkfield.Change{FolderID: optional.Set(&f.ID)}})
		planned := b.Make(t, creation.Input{URL: "https://example.com/planned"})
		b.Plan(t, planned, time.Hour, linkfield.Change{FolderID: to(&f.ID)})
		b.Now = b.Now.Add(2 * time.Hour)
		b.ApplyDue(t)
		for _, l := range []*link.Link{created, upserted, moved, revived, planned} {
			if got := b.folderOf(t, l); got != f.ID {
				t.Errorf("%s is in folder %q", l.OriginalURL, got)
			}
		}
		b.Remove(t, created.ID)
		if got := b.inFolders(t, f.ID, foreign.ID); len(got) != 1 || got[f.ID] != 4 {
			t.Errorf("counts %v", got)
		}
		for _, bad := range []string{foreign.ID, "fld_00000000000000000000000000", "no id", "\x00"} {
			if _, _, err := b.Create(t.Context(), b.Mine,
				creation.Input{URL: "https://example.com/x",
					Fields: linkfield.Change{FolderID: optional.Set(&bad)}}); !errs.Is(err, errs.NotFound) {
				t.Errorf("creating in %q: %v", bad, err)
			}
			linktest.Refused(
				b.Edit.Update(t.Context(), b.Mine, linkfield.Change{ID: moved.ID, FolderID: to(&bad)}),
			)(t, errs.NotFound, "moving to %q", bad)
			if _, err := b.Upsert(t.Context(), b.Mine, &creation.Input{URL: upserted.OriginalURL,
				Fields: linkfield.Change{ExternalID: optional.Set(new("1")), FolderID: to(&bad)}}); !errs.Is(err,
				errs.NotFound) {
				t.Errorf("an upsert into %q: %v", bad, err)
			}
			linktest.Refused(
				b.Schedule.Add(t.Context(), b.Mine, moved.ID, b.Now.Add(time.Hour),
					linkfield.Change{FolderID: to(&bad)}),
			)(t, errs.NotFound, "planning to move to %q", bad)
		}
		results := must.Value(b.CreateMany(t.Context(), b.Mine, creation.Batch{Links: []*creation.Input{
			{URL: "https://example.com/twice", Fields: linkfield.Change{FolderID: optional.Set(&foreign.ID)}},
			{URL: "https://example.com/twice"},
		}}))(t)
		if !errs.Is(results[0].Err, errs.NotFound) || results[1].Err != nil || !results[1].Created {
			t.Errorf("equal links, one with an unknown folder: %+v", results)
		}
		same, isNew := b.MakeOrFind(t, creation.Input{URL: moved.OriginalURL,
			Fields: linkfield.Change{FolderID: optional.Set(&f.ID)}})
		if isNew || same.ID != moved.ID {
			t.Errorf("%t, %+v", isNew, same)
		}
		b.ExpectConsistent(t)
	})
}

// TestDeleteFolder_KeepsLinks: a folder is deleted in calls of 1,000 links. A link that is reverted
// to a version with it is in no folder afterwards, and one with a scheduled change stays where it
// is.
func TestDeleteFolder_KeepsLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = 10_000
		f, other := b.newFolder(t, "large"), b.newFolder(t, "other")
		var links []*link.Link
		for from := 0; from < link.MaxBatch+2; from += link.MaxBatch {
			in := urls(from, min(from+link.MaxBatch, link.MaxBatch+2))
			for _, one := range in {
				one.Fields.FolderID = optional.Set(&f.ID)
			}
			for _, r := range must.Value(b.CreateMany(t.Context(), b.Mine, creation.Batch{Links: in}))(t) {
				links = append(links, r.Link)
			}
		}
		reverted, planned, gone := links[0], links[1], links[2]
		b.Remove(t, gone.ID)
		b.Plan(t, planned, time.Hour, linkfield.Change{FolderID: to(&other.ID)})
		b.Plan(t, planned, 2*time.Hour, linkfield.Change{FolderID: to(&f.ID), Title: to(new("planned"))})
		for _, want := range []int64{2, 0} {
			if got := must.Value(b.Edit.DeleteFolder(t.Context(), b.Mine, f.ID))(t); got.Remaining != want {
				t.Errorf("%d links are left, want %d", got.Remaining, want)
			}
		}
		linktest.Refused(b.Edit.DeleteFolder(t.Context(), b.Mine, f.ID))(t, errs.NotFound, "deleting it again")
		b.Now = b.Now.Add(3 * time.Hour)
		b.ApplyDue(t)
		if got := b.Reload(t, planned); optional.Value(got.FolderID) != other.ID ||
			optional.Value(got.Title) != "planned" {
			t.Errorf("after the scheduled change: %+v", got)
		}
		if got, err := b.Edit.Revert(t.Context(), b.Mine, reverted.ID, 1, nil); err != nil || got.FolderID != nil {
			t.Errorf("reverted: %+v, %v", got, err)
		}
		if got := must.Value(b.Edit.Restore(t.Context(), b.Mine, gone.ID))(t); got.FolderID != nil {
			t.Errorf("restored: %+v", got)
		}
		b.ExpectConsistent(t)
	})
}

// TestDeleteFolder_DuringMoves: links that are moved and created while their folder is deleted are
// in no folder, or were refused.
func TestDeleteFolder_DuringMoves(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		var links []*link.Link
		for i := range 8 {
			l := b.Make(t, creation.Input{URL: fmt.Sprintf("https://example.com/%d", i)})
			links = append(links, l)
		}
		for round := range 5 {
			f := b.newFolder(t, fmt.Sprint("folder ", round))
			var moving sync.WaitGroup
			for i, l := range links {
				moving.Go(func() {
					_, err := b.Edit.Update(t.Context(), b.Mine, linkfield.Change{ID: l.ID, FolderID: to(&f.ID)})
					if err != nil && !errs.Is(err, errs.NotFound) {
						t.Error(err)
					}
				})
				moving.Go(func() {
					in := creation.Input{URL: fmt.Sprintf("https://example.com/%d/%d", round, i),
						Fields: linkfield.Change{FolderID: optional.Set(&f.ID)}}
					if _, _, err := b.Create(t.Context(), b.Mine, in); err != nil && !errs.Is(err, errs.NotFound) {
						t.Error(err)
					}
				})
			}
			for {
				d, err := b.Edit.DeleteFolder(t.Context(), b.Mine, f.ID)
				must.NoError(t, err)
				if d.Remaining == 0 {
					break
				}
			}
			moving.Wait()
			if got := b.inFolders(t, f.ID); len(got) != 0 {
				t.Errorf("links are in a folder that does not exist: %v", got)
			}
		}
	})
}

// is fails the test unless the error is of the kind and about the field; an empty field means any.
func is(t *testing.T, what string, err error, kind errs.Kind, field string) {
	t.Helper()
	e := errs.From(err)
	if err == nil || e.Kind != kind || field != "" && (len(e.Field) == 0 || e.Field[len(e.Field)-1] != field) {
		t.Errorf("%s: %v, want %v at %q", what, err, kind, field)
	}
}

// TestFence_KeepsChangesInside: an API key with folders changes links that are in these before and
// after.
func TestFence_KeepsChangesInside(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		mine, second, other := b.newFolder(t, "mine"), b.newFolder(t, "second"), b.newFolder(t, "other")
		key := workspacetest.Fenced(t, b.DB, b.Mine.ID(), mine.ID, second.ID)
		inside := b.Make(t, creation.Input{URL: "https://example.com/inside",
			Fields: linkfield.Change{FolderID: optional.Set(&mine.ID)}})
		outside := b.Make(t, creation.Input{URL: "https://example.com/outside",
			Fields: linkfield.Change{FolderID: optional.Set(&other.ID)}})
		without := b.Make(t, creation.Input{URL: "https://example.com/without"})
		update := func(l *link.Link, c linkfield.Change) error {
			c.ID = l.ID
			_, err := b.Edit.Update(t.Context(), key, c)
			return err
		}
		is(t, "moving out", update(inside, linkfield.Change{FolderID: to(&other.ID)}), errs.Forbidden, "folderId")
		is(t, "moving to an unknown folder", update(inside, linkfield.Change{FolderID: to(new("fld_unknown"))}),
			errs.Forbidden, "folderId")
		is(t, "moving to none", update(inside, linkfield.Change{FolderID: optional.Edit[*string]{Set: true}}),
			errs.Forbidden, "folderId")
		must.NoError(t, update(inside, linkfield.Change{FolderID: to(&second.ID)}))
		for _, l := range []*link.Link{outside, without} {
			is(t, "moving in", update(l, linkfield.Change{FolderID: to(&mine.ID)}), errs.NotFound, "id")
			_, err := b.Edit.Delete(t.Context(), key, l.ID)
			is(t, "deleting", err, errs.NotFound, "id")
			_, err = b.Schedule.Add(t.Context(), key, l.ID, b.Now.Add(time.Hour), linkfield.Change{Title: to(new("x"))})
			is(t, "scheduling", err, errs.NotFound, "linkId")
		}
		_, err := b.Schedule.Add(t.Context(), key, inside.ID, b.Now.Add(time.Hour),
			linkfield.Change{FolderID: to(&other.ID)})
		is(t, "planning to move out", err, errs.Forbidden, "folderId")
		if got := b.folderOf(t, inside); got != second.ID {
			t.Errorf("the link is in %s", got)
		}

		b.Change(t, outside, linkfield.Change{FolderID: to(&mine.ID)})
		_, err = b.Edit.Revert(t.Context(), key, outside.ID, 1, nil)
		is(t, "reverting to a version outside", err, errs.Forbidden, "folderId")
	})
}

// TestFence_RefusesWhatIsAboutTheWorkspace: the permissions of an API key with folders end at
// these.
func TestFence_RefusesWhatIsAboutTheWorkspace(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		mine, other := b.newFolder(t, "mine"), b.newFolder(t, "other")
		key := workspacetest.Fenced(t, b.DB, b.Mine.ID(), mine.ID)
		_, err := b.Edit.ReplaceTags(t.Context(), key, []string{"a"}, nil)
		is(t, "replacing tags", err, errs.Forbidden, "")
		_, err = b.Edit.DeleteFolder(t.Context(), key, mine.ID)
		is(t, "deleting a folder", err, errs.Forbidden, "")
		_, err = b.Folders.Create(t.Context(), key, "new")
		is(t, "creating a folder", err, errs.Forbidden, "")
		_, err = b.Folders.Rename(t.Context(), key, mine.ID, "new")
		is(t, "renaming a folder", err, errs.Forbidden, "")
		_, err = b.Folders.Rows().Get(t.Context(), key, other.ID)
		is(t, "reading another folder", err, errs.NotFound, "id")
		if p := must.Value(b.Folders.Rows().List(t.Context(), key, page.Request{Size: 10}))(t); len(p.Items) != 1 ||
			p.Items[0].ID != mine.ID {
			t.Errorf("listed folders: %v", p.Items)
		}
		for _, r := range workspace.Rules {
			if may := workspace.CheckFence(r.Permission) == nil; key.May(r.Permission) != may {
				t.Errorf("%s: %v", r.Permission, !may)
			}
		}
	})
}

// TestFence_HasAnOperationInside: an operation is, to an API key with folders, that of the links in
// these.
func TestFence_HasAnOperationInside(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		mine := b.newFolder(t, "mine")
		key := workspacetest.Fenced(t, b.DB, b.Mine.ID(), mine.ID)
		inside := b.Make(t, creation.Input{URL: "https://example.com/inside",
			Fields: linkfield.Change{FolderID: optional.Set(&mine.ID)}})
		outside := b.Make(t, creation.Input{URL: "https://example.com/outside"})
		results := must.Value(b.Edit.DeleteMany(t.Context(), b.Mine, []string{inside.ID, outside.ID},
			link.SkipFailed))(t)
		undone := must.Value(b.Edit.RevertOperation(t.Context(), key, *link.OperationOf(results)))(t)
		if len(undone.LinkIDs) != 1 || undone.LinkIDs[0] != inside.ID || undone.Results[0].Err != nil ||
			undone.Remaining != 0 {
			t.Errorf("%+v", undone)
		}
		if b.Reload(t, outside).DeletedAt == nil {
			t.Error("the link outside is restored")
		}
		only := must.Value(b.Edit.DeleteMany(t.Context(), b.Mine, []string{outside.ID}, link.SkipFailed))(t)
		if id := link.OperationOf(only); id != nil {
			_, err := b.Edit.RevertOperation(t.Context(), key, *id)
			is(t, "an operation outside", err, errs.NotFound, "operationId")
		}
	})
}

// TestFence_CreatesInside: an API key with folders creates links in these, and finds none outside.
func TestFence_CreatesInside(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		mine, second, other := b.newFolder(t, "mine"), b.newFolder(t, "second"), b.newFolder(t, "other")
		key := workspacetest.Fenced(t, b.DB, b.Mine.ID(), mine.ID)
		several := workspacetest.Fenced(t, b.DB, b.Mine.ID(), mine.ID, second.ID)
		create := func(m workspace.Membership, in creation.Input) (*link.Link, error) {
			l, _, err := b.Create(t.Context(), m, in)
			return l, err
		}
		l := must.Value(create(key, creation.Input{URL: "https://example.com/1"}))(t)
		if b.folderOf(t, l) != mine.ID {
			t.Errorf("in %q", b.folderOf(t, l))
		}
		must.Value(create(several, creation.Input{URL: "https://example.com/2",
			Fields: linkfield.Change{FolderID: optional.Set(&second.ID)}}))(t)
		_, err := create(several, creation.Input{URL: "https://example.com/3"})
		is(t, "without a folder", err, errs.InvalidInput, "folderId")
		for _, one := range []string{other.ID, "fld_unknown"} {
			_, err = create(key, creation.Input{URL: "https://example.com/3",
				Fields: linkfield.Change{FolderID: optional.Set(&one)}})
			is(t, "in another folder", err, errs.Forbidden, "folderId")
		}

		deterministic, customs := link.Deterministic, link.Custom
		b.Make(t, creation.Input{URL: "https://example.com/4", Strategy: &deterministic})
		held := b.Make(t, creation.Input{URL: "https://example.com/5", Strategy: &customs, CustomCode: new("Held"),
			Fields: linkfield.Change{ExternalID: optional.Set(new("x"))}})
		_, err = create(key, creation.Input{URL: "https://example.com/4", Strategy: &deterministic})
		is(t, "a URL outside", err, errs.Conflict, "url")
		for _, url := range []string{held.OriginalURL, "https://example.com/6"} {
			_, err = create(key, creation.Input{URL: url, Strategy: &customs, CustomCode: new("Held")})
			is(t, "a code outside", err, errs.CodeTaken, "customCode")
		}
		_, err = create(key, creation.Input{URL: "https://example.com/6",
			Fields: linkfield.Change{ExternalID: optional.Set(new("x"))}})
		is(t, "an external id outside", err, errs.ExternalIDTaken, "externalId")
		_, err = b.Upsert(t.Context(), key, &creation.Input{URL: "https://example.com/6",
			Fields: linkfield.Change{ExternalID: optional.Set(new("x"))}})
		is(t, "upserting an external id outside", err, errs.ExternalIDTaken, "externalId")
		_, err = b.Upsert(t.Context(), key,
			&creation.Input{URL: "https://example.com/4", Strategy: &deterministic,
				Fields: linkfield.Change{ExternalID: optional.Set(new("y"))}})
		is(t, "upserting a URL outside", err, errs.Conflict, "url")
		in := &creation.Input{URL: "https://example.com/7", Fields: linkfield.Change{ExternalID: optional.Set(new("z")),
			FolderID: to[*string](nil)}}
		for _, want := range []creation.UpsertOutcome{creation.UpsertCreated, creation.UpsertUnchanged} {
			got, err := b.Upsert(t.Context(), key, in)
			if err != nil || got.Outcome != want || b.folderOf(t, got.Link) != mine.ID {
				t.Errorf("upserting without a folder: %+v, want %s: %v", got, want, err)
			}
		}
		moved := must.Value(b.ByExternalID(t.Context(), b.Mine, "z"))(t)
		b.Plan(t, moved, time.Minute, linkfield.Change{FolderID: to(&other.ID)})
		b.Tick()
		_, err = b.Upsert(t.Context(), key, in)
		is(t, "upserting what has left the folder", err, errs.ExternalIDTaken, "externalId")
		if p := must.Value(b.Preview(t.Context(), key, "https://example.com/4"))(t); p.Existing != nil {
			t.Errorf("the preview has %+v", p.Existing)
		}

		b.Remove(t, l.ID)
		b.PurgeEnded(t)
		must.Value(create(key, creation.Input{URL: "https://example.com/1", Strategy: &deterministic}))(t)
	})
}

// TestFence_ListsInside: lists, counts and tags of an API key with folders have the links in these.
func TestFence_ListsInside(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		lists := linklist.NewStore(b.DB, b.Links, func() time.Time { return b.Now })
		mine, second, other := b.newFolder(t, "mine"), b.newFolder(t, "second"), b.newFolder(t, "other")
		for _, f := range []*string{&mine.ID, &second.ID, &other.ID, nil} {
			name := "none"
			if f != nil {
				name = *f
			}
			b.Make(t,
				creation.Input{URL: "https://example.com/" + name, Fields: linkfield.Change{FolderID: optional.Set(f),
					Tags: optional.Set([]string{"all", "of " + name})}})
		}
		for n, key := range map[int]workspace.Membership{
			1: workspacetest.Fenced(t, b.DB, b.Mine.ID(), mine.ID),
			2: workspacetest.Fenced(t, b.DB, b.Mine.ID(), mine.ID, second.ID),
		} {
			for name, f := range map[string]*linklist.Filter{
				"all": nil, "a tag": {Tags: []string{"all"}}, "a text": {Search: new("example")},
				"folders": {FolderIDs: []string{mine.ID, second.ID, other.ID}},
			} {
				p := must.Value(lists.List(t.Context(), key, f, page.Request{Size: 10}))(t)
				if count := must.Value(lists.Count(t.Context(), key, f))(t); len(p.Items) != n || count != int64(n) {
					t.Errorf("%s, %d folders: %d links, counted %d", name, n, len(p.Items), count)
				}
			}
			tags := must.Value(lists.ListTags(t.Context(), key, "",
				page.Request{Size: 10, Order: linklist.TagOrder}))(t)
			if len(tags.Items) != n+1 || tags.Items[0].Name != "all" || tags.Items[0].LinkCount != int64(n) {
				t.Errorf("%d folders: %d tags, the first %+v", n, len(tags.Items), tags.Items[0])
			}
		}
	})
}

// TestFence_FolderOfKeyStays: of concurrent creations of a key for a folder and its deletion one
// succeeds.
func TestFence_FolderOfKeyStays(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		keys := &apikey.Store{DB: b.DB, Now: func() time.Time { return b.Now }}
		create := func(folderID string) (*apikey.Key, error) {
			k, _, err := keys.Create(t.Context(), b.Mine, apikey.NewKey{
				Name: "key", Scopes: []workspace.Permission{workspace.ReadLinks}, FolderIDs: []string{folderID},
			})
			return k, err
		}
		f := b.newFolder(t, "kept")
		l := b.Make(t, creation.Input{URL: "https://example.com/1",
			Fields: linkfield.Change{FolderID: optional.Set(&f.ID)}})
		k := must.Value(create(f.ID))(t)
		_, err := b.Edit.DeleteFolder(t.Context(), b.Mine, f.ID)
		is(t, "deleting a folder of a key", err, errs.Conflict, "id")
		if b.folderOf(t, l) != f.ID {
			t.Error("the link has left the folder of the key")
		}
		must.Value(keys.Revoke(t.Context(), b.Mine, k.ID))(t)
		must.Value(b.Edit.DeleteFolder(t.Context(), b.Mine, f.ID))(t)

		for range 20 {
			f := b.newFolder(t, "contested")
			var both sync.WaitGroup
			var created, deleted error
			both.Go(func() { k, created = create(f.ID) })
			both.Go(func() { _, deleted = b.Edit.DeleteFolder(t.Context(), b.Mine, f.ID) })
			both.Wait()
			switch {
			case created == nil && errs.Is(deleted, errs.Conflict):
				must.Value(keys.Revoke(t.Context(), b.Mine, k.ID))(t)
				must.Value(b.Edit.DeleteFolder(t.Context(), b.Mine, f.ID))(t)
			case deleted == nil && errs.Is(created, errs.NotFound):
			default:
				t.Fatalf("creating: %v, deleting: %v", created, deleted)
			}
		}
	})
}
