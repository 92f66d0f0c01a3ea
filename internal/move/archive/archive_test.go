package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/move/archive"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// bundle is a workspace that is exported.
type bundle struct {
	*creationtest.World
	Tasks   *task.Store
	Archive *archive.Store
	db      *db.DB
	// as is the member who exports.
	as workspace.Membership
}

func newBundle(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{World: creationtest.New(t, d), db: d}
	b.as, b.Quota.Default = b.Mine, 1000
	clock := func() time.Time { return b.Now }
	b.Tasks = task.NewStore(d, secrets.Box{}, clock)
	b.Archive = &archive.Store{
		DB: d, Tasks: b.Tasks, Accounts: &account.Store{DB: d, Now: clock}, Workspaces: workspacetest.Store(d),
		Folders: b.Folders,
		Domains: &domain.Store{DB: d, Now: clock}, Ledger: &clickstore.Ledger{DB: d},
		Imports:   &importer.Store{DB: d, Tasks: b.Tasks, Links: b.Links, Folders: b.Folders, Now: clock},
		Clicks:    &clicksql.Store{DB: d, Now: clock},
		Signer:    secrets.Signer{Secrets: [][]byte{[]byte("secret")}, Now: clock},
		PublicURL: "https://sho.rt", MaxBytes: 1 << 30, Now: clock,
	}
	return b
}

// node runs tasks until the returned function is called.
func (b *bundle) node(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &task.Runner{
		Store: b.Tasks, Slots: 1, Handlers: map[task.Kind]task.Handler{task.WorkspaceExport: b.Archive},
		Log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
		MemberOf: func(context.Context, *task.Task) (workspace.Membership, error) { return b.as, nil },
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		must.NoError(t, <-ended)
	}
}

func (b *bundle) reload(t *testing.T, of *task.Task) *task.Task {
	t.Helper()
	return must.Value(b.Tasks.ByID(t.Context(), b.as, of.ID))(t)[0]
}

// export exports, and returns the ended task.
func (b *bundle) export(t *testing.T, in archive.Settings) *task.Task {
	t.Helper()
	started := must.Value(b.Archive.Create(t.Context(), b.as, in))(t)
	defer b.node(t)()
	polltest.Until(t, "the export ends", func() bool { return b.reload(t, started).FinishedAt != nil })
	return b.reload(t, started)
}

// content returns the archive of an export.
func (b *bundle) content(t *testing.T, of *task.Task) []byte {
	t.Helper()
	if of.Status != task.Succeeded {
		t.Fatalf("the export is %s: %v", of.Status, of.Failure())
	}
	return must.Value(io.ReadAll(must.Value(b.Tasks.OpenFile(db.AsSystem(t.Context()), of.ID))(t)))(t)
}

// files returns the files of an archive, after comparing them with its manifest.
func files(t *testing.T, content []byte) map[string]string {
	t.Helper()
	_ = must.Value(importsource.CheckArchive(bytes.NewReader(content)))(t)
	found := map[string]string{}
	for entries := tar.NewReader(must.Value(gzip.NewReader(bytes.NewReader(content)))(t)); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		must.NoError(t, err)
		found[header.Name] = string(must.Value(io.ReadAll(entries))(t))
	}
}

// fill creates links, one of them in a folder, and clicks of three months.
func (b *bundle) fill(t *testing.T) {
	t.Helper()
	f := must.Value(b.Folders.Create(t.Context(), b.Mine, "folder"))(t)
	first := b.Make(t, creation.Input{URL: "https://example.com/first",
		Fields: linkfield.Change{FolderID: optional.Set(&f.ID)}})
	_ = must.Value(b.CreateMany(t.Context(), b.Mine, creation.Batch{Links: creationtest.URLs(0, 300)}))(t)
	batch := clickstore.Batch{Log: "log", To: 3}
	for i := range 3 {
		batch.Clicks = append(batch.Clicks, click.Click{
			ID: int64(i + 1), WorkspaceID: b.Mine.ID(), LinkID: first.ID, ClickedAt: b.Now.AddDate(0, -i, 0),
			Status: 302, End: int64(i + 1),
		})
	}
	must.NoError(t, b.Archive.Clicks.Write(db.AsSystem(t.Context()), batch))
}

var everything = archive.Settings{Sections: []archive.Section{
	archive.Folders, archive.Domains, archive.Members, archive.Links, archive.Versions, archive.Clicks, archive.Audit,
}}

// TestExport_GoesOnAfterLostNodes: an archive that several nodes have written, one file each, has
// the bytes of an undisturbed one.
func TestExport_GoesOnAfterLostNodes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBundle(t, d)
		b.fill(t)
		undisturbed := b.content(t, b.export(t, everything))
		started := must.Value(b.Archive.Create(t.Context(), b.as, everything))(t)
		nodes := 0
		for now := started; now.FinishedAt == nil; nodes++ {
			stop, before := b.node(t), now.Cursor
			polltest.Until(t, "the export advances", func() bool {
				now = b.reload(t, started)
				return now.Cursor != before || now.FinishedAt != nil
			})
			stop()
			now = b.reload(t, started)
		}
		if nodes < 3 {
			t.Errorf("only %d nodes took part", nodes)
		}
		disturbed := b.content(t, b.reload(t, started))
		want, got := files(t, undisturbed), files(t, disturbed)
		delete(want, "audit/00001.jsonl") // which has the end of the first export
		delete(got, "audit/00001.jsonl")
		delete(want, importsource.ManifestFile)
		delete(got, importsource.ManifestFile)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		months := slices.Sorted(maps.Keys(got))
		months = slices.DeleteFunc(months, func(name string) bool { return !strings.HasPrefix(name, "clicks/") })
		if len(months) != 3 || strings.Count(got[months[0]], "\n") != 1 {
			t.Errorf("clicks: %v", months)
		}
		if n := strings.Count(got["links/00001.jsonl"], "\n"); n != 301 {
			t.Errorf("%d links", n)
		}
	})
}

// TestExport_ObeysPermissions: a section that the member may not read is refused, or omitted by
// default. The member cannot read an archive with such a section.
func TestExport_ObeysPermissions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBundle(t, d)
		b.fill(t)
		whole := b.export(t, everything)
		links := must.Value(
			archive.ReportOf(b.export(t, archive.Settings{Sections: []archive.Section{archive.Links}})))(t)
		folders := must.Value(b.Folders.Names(t.Context(), b.Mine))(t)
		viewer := workspacetest.Join(t, d, b.Mine.ID(), workspace.Viewer)
		readsLinks := workspacetest.Key(t, d, b.Mine.ID(), "LINKS_READ")
		fenced := workspacetest.Fenced(t, d, b.Mine.ID(), folders["folder"])
		for name, c := range map[string]struct {
			as   workspace.Membership
			want []archive.Section
		}{
			"owner":  {b.Mine, everything.Sections[:5]},
			"viewer": {viewer, everything.Sections[:5]},
			"a key":  {readsLinks, []archive.Section{archive.Folders, archive.Links, archive.Versions}},
			"a key with a folder": {fenced,
				[]archive.Section{archive.Folders, archive.Domains, archive.Links, archive.Versions}},
			"a key without access": {workspacetest.Key(t, d, b.Mine.ID(), "STATS_READ"), nil},
		} {
			created, err := b.Archive.Create(t.Context(), c.as, archive.Settings{})
			if c.want == nil {
				if err == nil {
					t.Errorf("%s exports", name)
				}
				continue
			}
			must.NoError(t, err)
			var in archive.Settings
			must.NoError(t, json.Unmarshal([]byte(created.Input), &in))
			if !slices.Equal(in.Sections, c.want) {
				t.Errorf("%s exports %v, want %v", name, in.Sections, c.want)
			}
			must.Value(b.Tasks.Cancel(t.Context(), b.Mine, created.ID))(t)
		}
		for name, refused := range map[string]workspace.Membership{"viewer": viewer, "a key": readsLinks,
			"a key with a folder": fenced} {
			_,
				err := b.Archive.Create(t.Context(), refused,
				archive.Settings{Sections: []archive.Section{archive.Audit}})
			if !errs.Is(err, errs.Forbidden) {
				t.Errorf("%s exports the audit log: %v", name, err)
			}
		}

		_ = must.Value(b.Tasks.OpenFile(db.AsSystem(t.Context()), whole.ID))(t)
		url := must.Value(b.Archive.SignDownload(must.Value(archive.ReportOf(whole))(t), ""))(t)
		download := must.Value(b.Archive.OpenDownload((*url)[strings.LastIndex(*url, "/")+1:]))(t)
		if _, _, err := b.Archive.Open(t.Context(), viewer, download); !errs.Is(err, errs.Forbidden) {
			t.Errorf("a viewer reads the audit log of an archive: %v", err)
		}
		seen := must.Value(b.Tasks.ByID(t.Context(), viewer, whole.ID, links.ID))(t)
		for _, one := range seen {
			url := must.Value(b.Archive.SignDownload(must.Value(archive.ReportOf(one))(t), ""))(t)
			if (url != nil) != (one.ID == links.ID) {
				t.Errorf("a viewer's URL of %s: %v", one.Input, url)
			}
		}

		b.as = fenced
		inside := b.export(t,
			archive.Settings{Sections: []archive.Section{archive.Folders, archive.Links, archive.Versions,
				archive.Clicks}})
		for name, content := range files(t, b.content(t, inside)) {
			if name != importsource.ManifestFile && strings.Count(content, "\n") != 1 {
				t.Errorf("%s of a key with a folder:\n%s", name, content)
			}
		}
	})
}

// TestExport_EndsWithTheSize: an archive that is too large fails, and its file is deleted.
func TestExport_EndsWithTheSize(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBundle(t, d)
		b.fill(t)
		b.Archive.MaxBytes = 2000
		failed := b.export(t, archive.Settings{})
		if failed.Status != task.Failed || failed.Failure().Kind != errs.QuotaExceeded {
			t.Errorf("%s: %v", failed.Status, failed.Failure())
		}
		if n := must.Value(d.NewSelect().Table("task_chunks").Count(db.AsSystem(t.Context())))(t); n != 0 {
			t.Errorf("%d chunks are kept", n)
		}
	})
}

// TestExport_KeepsThreeArchives for three days.
func TestExport_KeepsThreeArchives(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBundle(t, d)
		var all []*task.Task
		for range 4 {
			all = append(all, b.export(t, archive.Settings{Sections: []archive.Section{archive.Links}}))
		}
		kept := func() (n int) {
			for _, one := range all {
				_, err := b.Tasks.OpenFile(db.AsSystem(t.Context()), one.ID)
				if err == nil {
					n++
				} else if !errs.Is(err, errs.Expired) {
					t.Fatal(err)
				}
			}
			return n
		}
		if n := kept(); n != 3 {
			t.Errorf("%d archives are kept", n)
		}
		b.Now = b.Now.Add(3*24*time.Hour - time.Second)
		must.NoError(t, b.Tasks.CleanUp(t.Context()))
		if n := kept(); n != 3 {
			t.Errorf("%d archives are kept before three days", n)
		}
		b.Now = b.Now.Add(time.Second)
		if url := must.Value(b.Archive.SignDownload(must.Value(archive.ReportOf(all[3]))(t), ""))(t); url != nil {
			t.Errorf("a removed archive has the URL %s", *url)
		}
		must.NoError(t, b.Tasks.CleanUp(t.Context()))
		if n := kept(); n != 0 {
			t.Errorf("%d archives are kept after three days", n)
		}
	})
}
