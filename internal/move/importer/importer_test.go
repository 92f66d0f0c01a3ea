package importer_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// csv imports lines with the columns code, url, title, tags and folder.
func (b *bundle) csv(t *testing.T, in importer.Settings, lines ...string) (*task.Task, []*importer.Row) {
	t.Helper()
	in.Source = importsource.CSV
	ended := b.importFile(t, in, []byte("code,url,title,tags,folder\n"+strings.Join(lines, "\n")))
	if ended.Status != task.Succeeded {
		t.Fatalf("the task is %s: %v", ended.Status, ended.Failure())
	}
	return ended, b.rows(t, ended)
}

// said describes rows: outcome, code, error.
func said(rows []*importer.Row) (all []string) {
	for _, row := range rows {
		said := fmt.Sprint(row.Outcome, " ", optional.Value(row.Code), " ", codeOf(row))
		all = append(all, strings.TrimSpace(said))
	}
	return all
}

func wantSaid(t *testing.T, what string, rows []*importer.Row, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, said(rows)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestImport_FollowsItsConflictPolicy runs each policy as a dry run and for good, with the same
// outcomes.
func TestImport_FollowsItsConflictPolicy(t *testing.T) {
	t.Parallel()
	lines := []string{"mine,https://example.com/mine", "taken,https://example.com/new",
		"Taken,https://example.com/newer",
		"same,https://example.com/same", "twin,https://example.com/a", "TWIN,https://example.com/b",
		"twin2,https://example.com/c"}
	for policy, want := range map[importer.ConflictPolicy][]string{
		importer.Skip: {"CREATED mine", "SKIPPED  CODE_TAKEN", "SKIPPED  CODE_TAKEN", "UNCHANGED same", "CREATED twin",
			"SKIPPED  CODE_TAKEN", "CREATED twin2"},
		importer.Rename: {"CREATED mine", "RENAMED taken-3", "RENAMED Taken-4", "UNCHANGED same", "CREATED twin",
			"RENAMED TWIN-2",
			"CREATED twin2"},
		importer.Replace: {"CREATED mine", "UPDATED taken", "FAILED  CODE_TAKEN", "UNCHANGED same", "CREATED twin",
			"FAILED  CODE_TAKEN", "CREATED twin2"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := newBundle(t, d)
				b.distinguishCase(t, false)
				taken := b.Make(t, creationtest.Custom("https://example.com/old", "taken"))
				b.Make(t, creationtest.Custom("https://example.com/old-2", "taken-2"))
				b.Make(t, creationtest.Custom("https://example.com/same", "same"))
				in := importer.Settings{OnConflict: policy, DryRun: true}
				dry, rows := b.csv(t, in, lines...)
				wantSaid(t, "dry run", rows, want...)
				applied := b.run(t, must.Value(b.Import.Apply(t.Context(), b.Mine, dry.ID))(t))
				wantSaid(t, "import", b.rows(t, applied), want...)
				url := b.Reload(t, taken).OriginalURL
				if (url == "https://example.com/new") != (policy == importer.Replace) {
					t.Errorf("the code leads to %s", url)
				}
			})
		})
	}
}

func TestImport_KeepsWhatIsChangedHere(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		in := importer.Settings{OnConflict: importer.Skip, Label: "old"}
		_, rows := b.csv(t, in, "a,https://example.com/a,A", "b,https://example.com/b,B", "c,https://example.com/c,C")
		wantSaid(t, "first", rows, "CREATED a", "CREATED b", "CREATED c")
		linkOf := func(i int) *link.Link { return b.Reload(t, &link.Link{ID: *rows[i].LinkID}) }
		b.Change(t, linkOf(0), linkfield.Change{Title: optional.Set(new("changed here"))})
		b.Tick()
		must.Value(b.Edit.Delete(t.Context(), b.Mine, *rows[2].LinkID))(t)

		_, again := b.csv(t, in, "a,https://example.com/a,A", "b,https://example.com/b2,B2",
			"c,https://example.com/c2,C")
		wantSaid(t, "second", again, "UNCHANGED a", "UPDATED b", "SKIPPED  CONFLICT")
		if l := linkOf(0); optional.Value(l.Title) != "changed here" {
			t.Errorf("an unchanged row changed the title to %v", l.Title)
		}
		if l := linkOf(1); l.OriginalURL != "https://example.com/b2" || optional.Value(l.Title) != "B2" ||
			l.VersionCause != link.CauseImported {
			t.Errorf("a changed row: %s %v %s", l.OriginalURL, l.Title, l.VersionCause)
		}
		in.Label = "another account"
		_, other := b.csv(t, in, "a,https://example.com/a,A", "b,https://example.com/x,X")
		wantSaid(t, "another account", other, "UNCHANGED a", "SKIPPED  CODE_TAKEN")
	})
}

func TestImport_CreatesFoldersAndAddsTags(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		known := must.Value(b.Folders.Create(t.Context(), b.Mine, "Known"))(t)
		in := importer.Settings{OnConflict: importer.Skip, Tags: []string{"moved"}, DryRun: true}
		lines := []string{"a,https://example.com/a,,x,known", "b,https://example.com/b,,,New",
			"c,https://example.com/c,,moved,new"}
		dry, _ := b.csv(t, in, lines...)
		if n := len(must.Value(b.Folders.Names(t.Context(), b.Mine))(t)); n != 1 {
			t.Errorf("a dry run left %d folders", n)
		}
		rows := b.rows(t, b.run(t, must.Value(b.Import.Apply(t.Context(), b.Mine, dry.ID))(t)))
		folders := must.Value(b.Folders.Names(t.Context(), b.Mine))(t)
		if len(folders) != 2 {
			t.Errorf("folders: %v", folders)
		}
		for i, want := range []struct {
			folderID string
			tags     []string
		}{{known.ID, []string{"moved", "x"}}, {folders["new"], []string{"moved"}},
			{folders["new"], []string{"moved"}}} {
			l := b.Reload(t, &link.Link{ID: *rows[i].LinkID})
			if optional.Value(l.FolderID) != want.folderID || !cmp.Equal(b.Tags(t, l), want.tags) {
				t.Errorf("row %d: folder %v, tags %v", i, l.FolderID, b.Tags(t, l))
			}
		}
	})
}

func TestImport_RefusesInvalidSettings(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, c := range []struct {
			in    importer.Settings
			kind  errs.Kind
			field string
		}{
			{importer.Settings{Label: strings.Repeat("x", 101)}, errs.InvalidInput, "label"},
			{importer.Settings{Label: "a\nb"}, errs.InvalidInput, "label"},
			{importer.Settings{Tags: []string{strings.Repeat("x", 51)}}, errs.InvalidInput, "tags"},
			{importer.Settings{FolderID: new("fld_unknown")}, errs.NotFound, "folderId"},
			{importer.Settings{Hosts: make([]importer.Host, 101)}, errs.InvalidInput, "hosts"},
			{importer.Settings{Hosts: []importer.Host{{Host: "no host"}}}, errs.InvalidInput, "hosts"},
			{importer.Settings{Hosts: []importer.Host{{Host: "go.example"}, {Host: "GO.example"}}}, errs.InvalidInput,
				"hosts"},
			{importer.Settings{Hosts: []importer.Host{{Host: "go.example", DomainID: new("dom_unknown")}}},
				errs.NotFound, "hosts"},
		} {
			c.in.Source = importsource.CSV
			if _, err := b.Import.Create(t.Context(), b.Mine, c.in); !errs.Is(err, c.kind) ||
				errs.From(err).Field[0] != c.field {
				t.Errorf("%+v: %v", c.in, err)
			}
		}
		in := importer.Settings{OnConflict: importer.Skip, Source: importsource.Bitly, DryRun: true}
		failed := b.importFile(t, in, []byte("no JSON"))
		if failed.Status != task.Failed || failed.Failure().Kind != errs.InvalidInput {
			t.Errorf("a file of another format: %s, %v", failed.Status, failed.Failure())
		}
		if _, err := b.Import.Apply(t.Context(), b.Mine, failed.ID); !errs.Is(err, errs.Conflict) {
			t.Errorf("applying a failed dry run: %v", err)
		}
		if _, err := b.Import.Apply(t.Context(), b.Foreign, failed.ID); !errs.Is(err, errs.NotFound) {
			t.Errorf("applying the dry run of another workspace: %v", err)
		}
	})
}

// TestImport_SurvivesNodes stops nodes and ends leases while they import, and compares with an
// undisturbed import.
func TestImport_SurvivesNodes(t *testing.T) {
	t.Parallel()
	lines := suitetest.Size(3_000, 100_000)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBundle(t, d)
		b.Quota.Default = 10_000_000
		file := bytes.NewBufferString("code,url\n")
		for i := range lines {
			fmt.Fprintf(file, "code-%d,https://example.com/%d\n", i%(lines-50), i)
		}
		in := importer.Settings{Source: importsource.CSV, OnConflict: importer.Rename}
		started := must.Value(b.Import.Create(t.Context(), b.Mine, in))(t)
		var passed atomic.Int64 // on the clock of leases
		b.Tasks.Now = func() time.Time { return b.Now.Add(time.Duration(passed.Load())) }
		size := int64(file.Len())
		must.NoError(t, b.Tasks.Receive(t.Context(), b.Mine, started.ID, file, size))
		for round := 1; ; round++ { // the later, the longer: a busy machine makes progress, too
			ctx, stop := context.WithTimeout(t.Context(), time.Duration(50+rand.IntN(300+20*round))*time.Millisecond)
			var nodes sync.WaitGroup
			for range 2 {
				r := &task.Runner{
					Store: b.Tasks, Slots: 1, Handlers: map[task.Kind]task.Handler{task.Import: b.Import},
					Log:      slog.New(slog.DiscardHandler),
					MemberOf: func(context.Context, *task.Task) (workspace.Membership, error) { return b.Mine, nil },
				}
				nodes.Go(func() { must.NoError(t, r.Run(ctx)) })
			}
			if rand.IntN(2) == 0 { // the first one loses its lease, and continues
				time.Sleep(20 * time.Millisecond)
				passed.Add(int64(2 * time.Minute))
			}
			nodes.Wait()
			stop()
			passed.Add(int64(20 * time.Minute))
			if must.Value(b.Tasks.ByID(t.Context(), b.Mine, started.ID))(t)[0].FinishedAt != nil {
				break
			}
		}
		ended := must.Value(b.Tasks.ByID(t.Context(), b.Mine, started.ID))(t)[0]
		want := map[importer.Outcome]int64{importer.Created: int64(lines - 50), importer.Failed: 50}
		diff := cmp.Diff(want, counted(t, ended))
		if diff != "" || ended.Status != task.Succeeded || ended.Done != int64(lines) {
			t.Errorf("%s, %d done (-want +got):\n%s", ended.Status, ended.Done, diff)
		}
		links := must.Value(d.NewSelect().Model((*link.Link)(nil)).Count(db.AsSystem(t.Context())))(t)
		var used int64
		must.NoError(t,
			d.NewSelect().Table("link_usage").ColumnExpr("sum(links)").Scan(db.AsSystem(t.Context()), &used))
		if links != int64(lines-50) || used != links {
			t.Errorf("%d links, %d used", links, used)
		}
	})
}

// counted returns the numbers of rows in a report.
func counted(t *testing.T, of *task.Task) map[importer.Outcome]int64 {
	t.Helper()
	counts := map[importer.Outcome]int64{}
	for _, c := range must.Value(importer.ReportOf(of))(t).Counts() {
		counts[c.Outcome] = c.Rows
	}
	return counts
}

// TestImport_ChangesALinkOnce: of two rows with one link, the first one wins, as a dry run and for
// good, in one step or several.
func TestImport_ChangesALinkOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBundle(t, d)
		b.distinguishCase(t, false)
		b.Quota.Default = 10_000
		_, rows := b.csv(t, importer.Settings{OnConflict: importer.Skip}, "promo,https://example.com/1",
			"Promo,https://example.com/1")
		wantSaid(t, "first", rows, "CREATED promo", "UNCHANGED promo")
		lines := []string{"promo,https://example.com/2"}
		for i := range 600 {
			lines = append(lines, fmt.Sprintf("c%d,https://example.com/c%d", i, i))
		}
		lines = append(lines, "Promo,https://example.com/3")
		for _, lines := range [][]string{{lines[0], lines[len(lines)-1]}, lines} {
			dry, rows := b.csv(t, importer.Settings{OnConflict: importer.Skip, DryRun: true}, lines...)
			want := []string{"UPDATED promo", "FAILED  CONFLICT"}
			wantSaid(t, "dry run", []*importer.Row{rows[0], rows[len(rows)-1]}, want...)
			if len(lines) > 2 {
				applied := b.run(t, must.Value(b.Import.Apply(t.Context(), b.Mine, dry.ID))(t))
				rows = b.rows(t, applied)
				wantSaid(t, "import", []*importer.Row{rows[0], rows[len(rows)-1]}, want...)
			}
		}
		if l := b.Reload(t, &link.Link{ID: *rows[0].LinkID}); l.OriginalURL != "https://example.com/2" {
			t.Errorf("the link leads to %s", l.OriginalURL)
		}
	})
}

// TestImport_KeepsGates: a link that was protected at its source keeps the gate that it got here,
// and without one stays deleted.
func TestImport_KeepsGates(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		in := importer.Settings{Source: importsource.JSONLines, OnConflict: importer.Skip}
		line := func(url string) []byte { return []byte(`{"code": "secret", "url": "` + url + `", "password": "x"}`) }
		first := b.importFile(t, in, line("https://example.com/1"))
		l := b.Reload(t, &link.Link{ID: *b.rows(t, first)[0].LinkID})
		if l.DeletedAt == nil {
			t.Fatal("the link redirects without its password")
		}
		second := b.importFile(t, in, line("https://example.com/2"))
		wantSaid(t, "a change while deleted", b.rows(t, second), "UPDATED secret")
		if l = b.Reload(t, l); l.OriginalURL != "https://example.com/2" || l.DeletedAt == nil {
			t.Errorf("%s, deleted at %v", l.OriginalURL, l.DeletedAt)
		}
		gate := &routing.GateChange{Confirm: optional.Set(new(true))}
		must.Value(b.Edit.Restore(t.Context(), b.Mine, l.ID))(t)
		b.Change(t, b.Reload(t, l), linkfield.Change{Routing: optional.Set(&routing.Change{Gate: optional.Set(gate)})})
		third := b.importFile(t, in, line("https://example.com/3"))
		wantSaid(t, "a change behind a gate", b.rows(t, third), "UPDATED secret")
		if l = b.Reload(t, l); l.OriginalURL != "https://example.com/3" || l.DeletedAt != nil || l.Routing == nil ||
			l.Routing.Gate == nil {
			t.Errorf("%s, deleted at %v, %+v", l.OriginalURL, l.DeletedAt, l.Routing)
		}
	})
}

// ownDomain adds the domain go.example.com, with codes of its own.
func (b *bundle) ownDomain(t *testing.T) *domain.Domain {
	t.Helper()
	own := &domain.Domain{ID: id.New(id.Domain), WorkspaceID: b.Mine.ID(), Host: "go.example.com",
		CodeSpace: domain.Own, CreatedAt: b.Now, VerifiedAt: &b.Now}
	must.Value(b.db.NewInsert().Model(own).Exec(db.AsSystem(t.Context())))(t)
	return own
}

// TestImport_NamesWhatChangedElsewhere: a code that changed at its source is a loss, and free for
// others; a removed domain is an error.
func TestImport_NamesWhatChangedElsewhere(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		in := importer.Settings{Source: importsource.JSONLines, OnConflict: importer.Skip}
		b.importFile(t, in, []byte(`{"id": "a", "code": "spring", "url": "https://example.com/1"}`))
		again := b.importFile(t, in, []byte(`{"id": "a", "code": "autumn", "url": "https://example.com/1"}`+"\n"+
			`{"id": "b", "code": "autumn", "url": "https://example.com/2"}`))
		rows := b.rows(t, again)
		wantSaid(t, "another code", rows, "UPDATED spring", "CREATED autumn")
		if losses := must.Value(rows[0].LossesOf())(t); len(losses) != 1 || losses[0].Field != "code" {
			t.Errorf("losses %v", losses)
		}

		own := b.ownDomain(t)
		in.Hosts = []importer.Host{{Host: "old.example.com", DomainID: &own.ID}}
		started := must.Value(b.Import.Create(t.Context(), b.Mine, in))(t)
		must.Value(b.db.NewDelete().Model(own).WherePK().Exec(db.AsSystem(t.Context())))(t)
		file := []byte(`{"domain": "old.example.com", "code": "x", "url": "https://example.com/x"}`)
		must.NoError(t, b.Tasks.Receive(t.Context(), b.Mine, started.ID, bytes.NewReader(file), int64(len(file))))
		wantSaid(t, "a removed domain", b.rows(t, b.run(t, started)), "FAILED  NOT_FOUND")
	})
}

// TestImport_HidesLinksOutsideOfFences: a key does not take over the origin of a link that it
// cannot see, nor learn its id.
func TestImport_HidesLinksOutsideOfFences(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		one, two := must.Value(b.Folders.Create(t.Context(), b.Mine, "one"))(t), must.Value(
			b.Folders.Create(t.Context(), b.Mine, "two"))(t)
		mine := b.Mine
		in := importer.Settings{OnConflict: importer.Skip}
		line := "code,https://example.com/1"
		b.Mine = workspacetest.Fenced(t, b.db, mine.ID(), one.ID)
		_, rows := b.csv(t, in, line)
		wantSaid(t, "the first key", rows, "CREATED code")
		b.Mine = workspacetest.Fenced(t, b.db, mine.ID(), two.ID)
		_, hidden := b.csv(t, in, line)
		wantSaid(t, "the other key", hidden, "SKIPPED  CONFLICT")
		in.Label = "other"
		_, taken := b.csv(t, in, line)
		wantSaid(t, "the other key with another label", taken, "SKIPPED  CODE_TAKEN")
		if hidden[0].LinkID != nil || taken[0].LinkID != nil {
			t.Error("the other key learns the id of the link")
		}
		b.Mine, in.Label = workspacetest.Fenced(t, b.db, mine.ID(), one.ID), ""
		_, again := b.csv(t, in, line)
		wantSaid(t, "the first key again", again, "UNCHANGED code")
		if *again[0].LinkID != *rows[0].LinkID {
			t.Error("the origin is of another link")
		}
	})
}

// TestImport_CountsEndedLinks that it creates or changes, and that respond 410, in a dry run too. Its
// report has an operation to undo if it has created or changed a link.
func TestImport_CountsEndedLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Make(t, creationtest.Custom("https://example.com/mine", "mine"))
		past, now, future := b.Now.AddDate(-1, 0, 0), b.Now, b.Now.AddDate(1, 0, 0)
		for _, c := range []struct {
			rows    string
			policy  importer.ConflictPolicy
			ended   int64
			changes bool
		}{
			{"", importer.Skip, 0, false},
			{"mine,%[1]s,\nx/y,%[1]s,\n", importer.Skip, 0, false},
			{"a,%[1]s,\nb,%[2]s,\nc,%[3]s,\nd,,\ne,%[1]s,yes\n", importer.Skip, 2, true},
			{"a,%[1]s,\nb,%[2]s,\nc,%[3]s,\nd,,\ne,%[1]s,yes\n", importer.Skip, 0, false},
			{"c,%[1]s,\n", importer.Skip, 1, true},
			{"mine,%[1]s,\n", importer.Rename, 1, true},
			{"mine,%[1]s,\n", importer.Replace, 0, false}, // imported before
			{"e,%[1]s,yes\nf,,yes\n", importer.Skip, 0, true},
		} {
			file := "code,expiresAt,disabled,url\n"
			for _, line := range strings.Split(strings.TrimSpace(c.rows), "\n") {
				if line != "" {
					file += line + ",https://example.com/ended\n"
				}
			}
			file = strings.NewReplacer("%[1]s", past.Format(time.RFC3339), "%[2]s", now.Format(time.RFC3339), "%[3]s",
				future.Format(time.RFC3339)).Replace(file)
			in := importer.Settings{Source: importsource.CSV, OnConflict: c.policy}
			for _, in.DryRun = range []bool{true, false} {
				r := must.Value(importer.ReportOf(b.importFile(t, in, []byte(file))))(t)
				if r.Ended() != c.ended || (r.Operation() != nil) != (c.changes && !in.DryRun) {
					t.Errorf("%q, dry run %t: %d ended, operation %v", c.rows, in.DryRun, r.Ended(), r.Operation())
				}
			}
		}
	})
}

// TestImport_OfAnEmptyFile succeeds without rows, and can be applied.
func TestImport_OfAnEmptyFile(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		dry := b.importFile(t,
			importer.Settings{Source: importsource.JSONLines, OnConflict: importer.Skip, DryRun: true}, nil)
		applied := b.run(t, must.Value(b.Import.Apply(t.Context(), b.Mine, dry.ID))(t))
		for _, it := range []*task.Task{dry, applied} {
			if it.Status != task.Succeeded || it.Total == nil || *it.Total != 0 {
				t.Errorf("%s with %v of %v: %v", it.Status, it.Done, it.Total, it.Failure())
			}
			if r := must.Value(importer.ReportOf(it))(t); r == nil || len(r.Counts()) > 0 {
				t.Errorf("the report is %+v", r)
			}
		}
	})
}

// TestImport_DryRunCountsItsEarlierRows: rows of other steps have taken codes, external ids,
// destinations and places for folders, as in the import.
func TestImport_DryRunCountsItsEarlierRows(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = 10_000
		var lines []string
		row := func(i int, more string) {
			lines = append(lines, fmt.Sprintf(`{"id": "%d", "url": "https://example.com/%[1]d"%s}`, i, more))
		}
		row(0, `, "externalId": "E", "code": "one"`)
		lines = append(lines, `{"id": "url", "url": "https://example.com/same"}`)
		for i := range 1100 {
			row(i+1, fmt.Sprintf(`, "code": "code-%d", "folder": "Folder %[1]d"`, i))
		}
		row(2000, `, "externalId": "E"`)
		row(2001, `, "code": "one"`)
		lines = append(lines, `{"id": "url again", "url": "https://example.com/same"}`)
		row(2002, `, "code": "last", "folder": "Folder 3"`)
		in := importer.Settings{Source: importsource.JSONLines, OnConflict: importer.Skip, DryRun: true}
		dry := b.importFile(t, in, []byte(strings.Join(lines, "\n")))
		applied := b.run(t, must.Value(b.Import.Apply(t.Context(), b.Mine, dry.ID))(t))
		rows := b.rows(t, applied)
		if diff := cmp.Diff(withoutGenerated(rows), withoutGenerated(b.rows(t, dry))); diff != "" {
			t.Errorf("the dry run differs (-import +dry run):\n%s", diff)
		}
		wantSaid(t, "the last rows", rows[len(rows)-4:], "FAILED  EXTERNAL_ID_TAKEN", "SKIPPED  CODE_TAKEN",
			"UNCHANGED "+*rows[1].Code, "CREATED last")
		if counts := counted(t, applied); counts[importer.Failed] != 101 { // a workspace has 1,000 folders
			t.Errorf("outcomes %v", counts)
		}
	})
}

// withoutGenerated are the outcomes and errors of rows.
func withoutGenerated(rows []*importer.Row) (all []string) {
	for _, row := range rows {
		all = append(all, fmt.Sprint(row.Line, " ", row.Outcome, " ", codeOf(row)))
	}
	return all
}

// TestImport_HashesWhatTheSourceDescribes: neither visits at the source nor the way to it change a
// row, so edits made here survive.
func TestImport_HashesWhatTheSourceDescribes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		in := importer.Settings{Source: importsource.Shlink, OnConflict: importer.Skip, Label: "mine"}
		shlink := func(visits, limit int) []*importer.Row {
			return b.rows(t,
				b.importFile(t, in, fmt.Appendf(nil, `[{"shortCode": "a", "shortUrl": "https://s.example.com/a", `+
					`"longUrl": "https://example.com/a", "meta": {"maxVisits": %d}, "visitsSummary": {"total": %d}}]`,
					limit, visits)))
		}
		wantSaid(t, "Shlink", shlink(3, 10), "CREATED a")
		wantSaid(t, "after another visit", shlink(4, 10), "UNCHANGED a")
		wantSaid(t, "with another limit", shlink(4, 11), "UPDATED a")

		in.Source = importsource.Sink
		const links = `{"version": "1.0", "list_complete": true, ` +
			`"links": [{"id": "1", "slug": "b", "url": "https://example.com/b"}]}`
		wantSaid(t, "Sink", b.rows(t, b.importFile(t, in, []byte(links))), "CREATED b")
		byAPI := b.importSink(t, func(int) (int, http.Header, string) { return http.StatusOK, nil, links })
		wantSaid(t, "Sink by API", b.rows(t, b.run(t, byAPI)), "UNCHANGED b")
	})
}

// TestImport_RenamesLongCodes of a domain, which are longer than those of a workspace.
func TestImport_RenamesLongCodes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.ownDomain(t)
		in := importer.Settings{Source: importsource.JSONLines, OnConflict: importer.Rename}
		long, longest := strings.Repeat("a", 100), strings.Repeat("é", 127)
		var lines []string
		for i, code := range []string{long, long, longest, longest} {
			lines = append(lines, fmt.Sprintf(`{"id": "%d", "domain": "go.example.com", "code": "%s", `+
				`"url": "https://example.com/%[1]d"}`, i, code))
		}
		rows := b.rows(t, b.importFile(t, in, []byte(strings.Join(lines, "\n"))))
		wantSaid(t, "long codes", rows, "CREATED "+long, "RENAMED "+long+"-2", "CREATED "+longest,
			"RENAMED "+strings.Repeat("é", 126)+"-2")
	})
}

// TestImport_KeepsTheFirstFailedRows: those beyond 5,000 of each outcome without a link are counted.
func TestImport_KeepsTheFirstFailedRows(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Make(t, creationtest.Custom("https://example.com/taken", "taken"))
		file := strings.Repeat("{}\n", 5_600) +
			strings.Repeat(`{"code":"taken","url":"https://example.com/other"}`+"\n", 5_600) +
			`{"code":"last","url":"https://example.com/last"}` + "\n"
		for _, dryRun := range []bool{true, false} {
			ended := b.importFile(t, importer.Settings{Source: importsource.JSONLines, OnConflict: importer.Skip,
				DryRun: dryRun}, []byte(file))
			var stored []struct {
				Outcome importer.Outcome
				Rows    int64
			}
			byOutcome := b.db.NewSelect().Table("import_rows").Column("outcome").ColumnExpr("count(*) AS rows").
				Where("task_id = ?", ended.ID).Group("outcome").Order("outcome")
			must.NoError(t, byOutcome.Scan(db.AsSystem(t.Context()), &stored))
			got := fmt.Sprint(stored)
			if got != "[{CREATED 1} {FAILED 5000} {SKIPPED 5000}]" || ended.StoredRows != 10_001 {
				t.Errorf("dry run %t: %s, %d", dryRun, got, ended.StoredRows)
			}
			want := map[importer.Outcome]int64{importer.Failed: 5_600, importer.Skipped: 5_600, importer.Created: 1}
			if diff := cmp.Diff(want, counted(t, ended)); diff != "" {
				t.Errorf("dry run %t (-want +got):\n%s", dryRun, diff)
			}
			if n := must.Value(b.db.NewSelect().Table("import_claims").Where("task_id = ?", ended.ID).
				Count(db.AsSystem(t.Context())))(t); n != 0 {
				t.Errorf("%d claims of an ended task are stored", n)
			}
		}
	})
}

// TestImport_KeepsAllErrorsOfARow of a file, and of a link that cannot be created.
func TestImport_KeepsAllErrorsOfARow(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, dryRun := range []bool{true, false} {
			rows := b.rows(t, b.importFile(t,
				importer.Settings{Source: importsource.JSONLines, OnConflict: importer.Skip, DryRun: dryRun},
				[]byte(`{"code":7,"url":"ftp://example.com/"}`+"\n"+`{"code":"a b","url":"https://example.com/",`+
					`"startsAt":"2030-01-02T00:00:00Z","expiresAt":"2030-01-01T00:00:00Z"}`)))
			var got []string
			for _, row := range rows {
				for _, e := range errs.From(row.Failure()).Each() {
					got = append(got, fmt.Sprint(row.Line, " ", e.Kind.Code(), " ", strings.Join(e.Field, ".")))
				}
			}
			want := []string{"1 INVALID_INPUT code", "1 INVALID_URL url", "2 INVALID_INPUT code",
				"2 INVALID_INPUT startsAt"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("dry run %t (-want +got):\n%s", dryRun, diff)
			}
		}
	})
}

// codeOf returns the code of the first error of a row; empty for none.
func codeOf(row *importer.Row) string {
	if err := row.Failure(); err != nil {
		return errs.From(err).Kind.Code()
	}
	return ""
}
