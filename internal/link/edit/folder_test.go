package edit_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/folder"
)

func (b *bundle) newFolder(t *testing.T, name string) *folder.Folder {
	t.Helper()
	return must.Value(b.Folders.Create(t.Context(), b.Mine, name))(t)
}

// inFolders returns the numbers of links in folders.
func (b *bundle) inFolders(t *testing.T, ids ...string) map[string]int64 {
	t.Helper()
	return must.Value(linklist.NewStore(b.DB, time.Now).CountInFolders(t.Context(), b.Mine, ids...))(t)
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
		created := b.Make(t, creation.Input{URL: "https://example.com/created", FolderID: &f.ID})
		upserted := must.Value(b.Upsert(t.Context(), b.Mine,
			&creation.Upsert{ExternalID: "1", URL: "https://example.com/upserted",
				Fields: link.Change{FolderID: to(&f.ID)}}))(t).Link
		moved := b.Make(t, creation.Input{URL: "https://example.com/moved"})
		b.Change(t, moved, link.Change{FolderID: to(&f.ID)})
		revived := b.Make(t, creation.Input{URL: "https://example.com/revived"})
		b.Remove(t, revived.ID)
		b.Make(t, creation.Input{URL: "https://example.com/revived", FolderID: &f.ID})
		planned := b.Make(t, creation.Input{URL: "https://example.com/planned"})
		b.Plan(t, planned, time.Hour, link.Change{FolderID: to(&f.ID)})
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
				creation.Input{URL: "https://example.com/x", FolderID: &bad}); !errs.Is(err, errs.NotFound) {
				t.Errorf("creating in %q: %v", bad, err)
			}
			linktest.Refused(
				b.Edit.Update(t.Context(), b.Mine, link.Change{ID: moved.ID, FolderID: to(&bad)}),
			)(t, errs.NotFound, "moving to %q", bad)
			if _, err := b.Upsert(t.Context(), b.Mine, &creation.Upsert{ExternalID: "1", URL: upserted.OriginalURL,
				Fields: link.Change{FolderID: to(&bad)}}); !errs.Is(err, errs.NotFound) {
				t.Errorf("an upsert into %q: %v", bad, err)
			}
			linktest.Refused(
				b.Schedule.Add(t.Context(), b.Mine, moved.ID, b.Now.Add(time.Hour), link.Change{FolderID: to(&bad)}),
			)(t, errs.NotFound, "planning to move to %q", bad)
		}
		results := must.Value(b.CreateMany(t.Context(), b.Mine, creation.Batch{Links: []*creation.Input{
			{URL: "https://example.com/twice", FolderID: &foreign.ID}, {URL: "https://example.com/twice"},
		}}))(t)
		if !errs.Is(results[0].Err, errs.NotFound) || results[1].Err != nil || !results[1].Created {
			t.Errorf("equal links, one with an unknown folder: %+v", results)
		}
		same, isNew := b.MakeOrFind(t, creation.Input{URL: moved.OriginalURL, FolderID: &f.ID})
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
				one.FolderID = &f.ID
			}
			for _, r := range must.Value(b.CreateMany(t.Context(), b.Mine, creation.Batch{Links: in}))(t) {
				links = append(links, r.Link)
			}
		}
		reverted, planned, gone := links[0], links[1], links[2]
		b.Remove(t, gone.ID)
		b.Plan(t, planned, time.Hour, link.Change{FolderID: to(&other.ID)})
		b.Plan(t, planned, 2*time.Hour, link.Change{FolderID: to(&f.ID), Title: to(new("planned"))})
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
					_, err := b.Edit.Update(t.Context(), b.Mine, link.Change{ID: l.ID, FolderID: to(&f.ID)})
					if err != nil && !errs.Is(err, errs.NotFound) {
						t.Error(err)
					}
				})
				moving.Go(func() {
					in := creation.Input{URL: fmt.Sprintf("https://example.com/%d/%d", round, i), FolderID: &f.ID}
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
