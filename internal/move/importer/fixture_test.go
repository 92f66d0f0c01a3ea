package importer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

var box = secrets.Box{Key: []byte(strings.Repeat("k", 32))}

// bundle is a workspace that imports.
type bundle struct {
	*creationtest.World
	Tasks  *task.Store
	Import *importer.Store
	db     *db.DB
}

func newBundle(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{World: creationtest.New(t, d), db: d}
	b.Links.Passwords = account.NewLinkPasswords(bcrypt.MinCost)
	clock := func() time.Time { return b.Now }
	b.Tasks = task.NewStore(d, box, clock)
	b.Import = &importer.Store{
		DB: d, Tasks: b.Tasks, Links: b.Links, Creation: b.Store, Folders: b.Folders,
		Limits: ratelimit.Limiter{Off: true}, Now: clock,
	}
	return b
}

// each runs a test in parallel with others, on both databases.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		test(t, newBundle(t, d))
	})
}

// run runs all tasks, on a node of its own, until the task has ended.
func (b *bundle) run(t *testing.T, started *task.Task) *task.Task {
	t.Helper()
	return b.runUntil(t, started, func(now *task.Task) bool { return now.FinishedAt != nil })
}

func (b *bundle) runUntil(t *testing.T, started *task.Task, isDone func(*task.Task) bool) *task.Task {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r := &task.Runner{
		Store: b.Tasks, Slots: 1, Handlers: map[task.Kind]task.Handler{task.Import: b.Import},
		Log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
		MemberOf: func(context.Context, *task.Task) (workspace.Membership, error) { return b.Mine, nil },
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var now *task.Task
	polltest.Until(t, "the task is done", func() bool {
		now = must.Value(b.Tasks.ByID(t.Context(), b.Mine, started.ID))(t)[0]
		return isDone(now)
	})
	stop()
	must.NoError(t, <-ended)
	return now
}

// importFile imports a file, and returns the ended task.
func (b *bundle) importFile(t *testing.T, in importer.Settings, file []byte) *task.Task {
	t.Helper()
	started := must.Value(b.Import.Create(t.Context(), b.Mine, in))(t)
	must.NoError(t, b.Tasks.Receive(t.Context(), b.Mine, started.ID, bytes.NewReader(file), int64(len(file))))
	return b.run(t, started)
}

// rows returns all rows of an import.
func (b *bundle) rows(t *testing.T, of *task.Task) (rows []*importer.Row) {
	t.Helper()
	for r := (page.Request{Order: task.RowOrder, Size: 100}); ; {
		p := must.Value(b.Import.Rows(t.Context(), of, importer.RowFilter{}, r))(t)
		if rows = append(rows, p.Items...); !p.HasNext {
			return rows
		}
		r = must.Value(task.RowOrder.Parse("", new(100), &p.Cursors[len(p.Cursors)-1], nil, nil))(t)
	}
}

// fixture is the settings.json of a source.
type fixture struct {
	Input struct {
		Source importsource.Source
		Label  string
		API    *struct{ BaseURL, Token, Account string }
		Hosts  []struct {
			Host   string
			Domain *string
		}
	}
	Domains []struct {
		Ref, Host     string
		CodeSpace     domain.CodeSpace
		CaseSensitive bool
	}
	Now time.Time
}

// expectedRow is a row of expected.json.
type expectedRow struct {
	Line     int64
	SourceID string
	Outcome  importer.Outcome
	Host     string
	Code     string
	URL      string
	Deleted  bool
	Errors   []string
	Losses   []struct{ Field, Reason string }
	// Origins are the sources of the link, oldest first; none means that of the import.
	Origins []importsource.Source
}

func load[T any](t *testing.T, path string) (v T) {
	t.Helper()
	must.NoError(t, json.Unmarshal(read(t, path), &v))
	return v
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	return must.Value(os.ReadFile(filepath.Join("..", "importsource", "testdata", path)))(t)
}

// fixture has the workspace as the fixture of a source wants it, with its domains, and returns it
// with the settings of its import.
func (b *bundle) fixture(t *testing.T, folder string) (f fixture, in importer.Settings) {
	t.Helper()
	f = load[fixture](t, folder+"/settings.json")
	b.Now, b.Quota.Default = f.Now, 10_000
	b.distinguishCase(t, folder == "kutt") // whose file has shared codes that differ in case
	in = importer.Settings{Source: f.Input.Source, Label: f.Input.Label, OnConflict: importer.Skip}
	ids := map[string]string{}
	for _, d := range f.Domains {
		own := &domain.Domain{ID: id.New(id.Domain), WorkspaceID: b.Mine.ID(), Host: d.Host, CodeSpace: d.CodeSpace,
			CaseSensitive: d.CaseSensitive, CreatedAt: f.Now, VerifiedAt: &f.Now}
		must.Value(b.db.NewInsert().Model(own).Exec(db.AsSystem(t.Context())))(t)
		ids[d.Ref] = own.ID
	}
	for _, h := range f.Input.Hosts {
		target := importer.Host{Host: h.Host}
		if h.Domain != nil {
			target.DomainID = new(ids[*h.Domain])
		}
		in.Hosts = append(in.Hosts, target)
	}
	return f, in
}

// TestImport_EqualsFixtures imports the file of each source into an empty workspace: first as a dry
// run, then twice.
func TestImport_EqualsFixtures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ folder, file, expected string }{
		{"bitly", "bitlinks.json", "expected.json"},
		{"dub", "links.json", "expected.json"},
		{"dub", "links.csv", "expected_csv.json"},
		{"kutt", "links.json", "expected.json"},
		{"rebrandly", "links.json", "expected.json"},
		{"shlink", "short-urls.json", "expected.json"},
		{"short_io", "links.json", "expected.json"},
		{"sink", "export.json", "expected.json"},
		{"yourls", "yourls_url.csv", "expected.json"},
		{"csv", "links.csv", "expected.json"},
		{"json_lines", "links.jsonl", "expected.json"},
		{"linkforge", "archive.tar.gz", "expected.json"},
	} {
		t.Run(c.folder+"/"+c.file, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := newBundle(t, d)
				_, in := b.fixture(t, c.folder)
				var want []expectedRow
				if c.folder == "csv" || c.folder == "linkforge" {
					want = load[struct{ Rows []expectedRow }](t, c.folder+"/expected.json").Rows
				} else {
					want = load[[]expectedRow](t, c.folder+"/"+c.expected)
				}
				file := read(t, c.folder+"/"+c.file)
				in.DryRun = true
				dry := b.importFile(t, in, file)
				b.wantOutcomes(t, dry, want)
				if n := must.Value(d.NewSelect().Model((*link.Link)(nil)).Count(db.AsSystem(t.Context())))(t); n != 0 ||
					b.Used(t) != 0 {
					t.Errorf("a dry run created %d links, and used %d", n, b.Used(t))
				}
				applied := b.run(t, must.Value(b.Import.Apply(t.Context(), b.Mine, dry.ID))(t))
				b.wantOutcomes(t, applied, want)
				b.wantLinks(t, applied, want)

				versions := b.versions(t)
				in.DryRun = false
				again := b.importFile(t, in, file)
				for i := range want {
					if slices.Contains([]importer.Outcome{importer.Created, importer.Renamed}, want[i].Outcome) {
						want[i].Outcome = importer.Unchanged
					}
				}
				b.wantOutcomes(t, again, want)
				if now := b.versions(t); now != versions {
					t.Errorf("a second import wrote %d versions", now-versions)
				}
			})
		})
	}
}

// distinguishCase has case matter in the shared codes of the workspace, or not.
func (b *bundle) distinguishCase(t *testing.T, isSensitive bool) {
	t.Helper()
	b.Mine.Workspace().CaseSensitiveCodes = isSensitive
	must.Value(b.db.NewUpdate().Table("workspaces").Set("case_sensitive_codes = ?", isSensitive).
		Where("id = ?", b.Mine.ID()).
		Exec(db.AsSystem(t.Context())))(t)
}

// versions returns the sum of the numbers of versions of all links.
func (b *bundle) versions(t *testing.T) (n int) {
	t.Helper()
	must.NoError(t, b.db.NewSelect().Model((*link.Link)(nil)).ColumnExpr("COALESCE(SUM(version), 0)").
		Scan(db.AsSystem(t.Context()), &n))
	return n
}

func (b *bundle) wantOutcomes(t *testing.T, of *task.Task, want []expectedRow) {
	t.Helper()
	if of.Status != task.Succeeded {
		t.Fatalf("the task is %s: %v", of.Status, of.Failure())
	}
	var wanted, got []string
	for _, row := range want {
		if row.Deleted && row.Outcome == importer.Created { // the fixtures say what becomes of the link
			row.Outcome = importer.Closed
		}
		said := fmt.Sprint(row.Line, " ", row.SourceID, " ", row.Outcome, " ", strings.Join(row.Errors, " "))
		for _, loss := range row.Losses {
			said += "; " + loss.Field + " " + loss.Reason
		}
		wanted = append(wanted, said)
	}
	counted := int64(0)
	for _, row := range b.rows(t, of) {
		said := fmt.Sprint(row.Line, " ", row.SourceID, " ", row.Outcome, " ", codeOf(row))
		for _, loss := range must.Value(row.LossesOf())(t) {
			said += "; " + loss.Field + " " + string(loss.Reason)
		}
		got = append(got, said)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	for _, c := range must.Value(importer.ReportOf(of))(t).Counts() {
		counted += c.Rows
	}
	if counted != of.Done || of.Done != int64(len(want)) || of.Total == nil || *of.Total != of.Done {
		t.Errorf("%d rows are counted of %d", counted, of.Done)
	}
}

// wantLinks checks the links of an import, and that each has its origin.
func (b *bundle) wantLinks(t *testing.T, of *task.Task, want []expectedRow) {
	t.Helper()
	for i, row := range b.rows(t, of) {
		if want[i].Outcome != importer.Created { // also closed ones
			continue
		}
		l := b.Reload(t, &link.Link{ID: *row.LinkID})
		if l.OriginalURL != want[i].URL || want[i].Code != "" && l.ShownCode() != want[i].Code ||
			(l.DeletedAt != nil) != want[i].Deleted {
			t.Errorf("row %d: %s %s %v, want %+v", row.Number, l.ShownCode(), l.OriginalURL, l.DeletedAt, want[i])
		}
		if l.VersionCause != link.CauseImported || optional.Value(l.VersionOperation) != of.OperationID {
			t.Errorf("row %d: %s by %v", row.Number, l.VersionCause, l.VersionOperation)
		}
		origins := must.Value(b.Import.Origins(t.Context(), b.Mine, l.ID))(t)[l.ID]
		wanted := want[i].Origins
		if wanted == nil {
			wanted = []importsource.Source{must.Value(importer.SettingsOf(of))(t).Source}
		}
		var sources []importsource.Source
		for _, o := range origins {
			sources = append(sources, o.Source)
		}
		if !slices.Equal(sources, wanted) || origins[len(origins)-1].SourceID != row.SourceID {
			t.Errorf("row %d: origins %v", row.Number, sources)
		}
	}
}
