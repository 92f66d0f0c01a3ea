package importer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// dryAndReal imports a file as a dry run, then for good, compares the outcomes, and returns the
// rows.
func (b *bundle) dryAndReal(t *testing.T, in importer.Settings, file string) []*importer.Row {
	t.Helper()
	in.DryRun = true
	dry := b.importFile(t, in, []byte(file))
	applied := b.run(t, must.Value(b.Import.Apply(t.Context(), b.Mine, dry.ID))(t))
	for _, it := range []*task.Task{dry, applied} {
		if it.Status != task.Succeeded {
			t.Fatalf("the task is %s: %v", it.Status, it.Failure())
		}
	}
	rows := b.rows(t, applied)
	if diff := cmp.Diff(withoutGenerated(rows), withoutGenerated(b.rows(t, dry))); diff != "" {
		t.Errorf("the dry run differs (-import +dry run):\n%s", diff)
	}
	return rows
}

// outcomes describes rows without generated codes.
func outcomes(rows []*importer.Row) (all []string) {
	for _, row := range rows {
		all = append(all, strings.TrimSpace(fmt.Sprint(row.Outcome, " ", codeOf(row))))
	}
	return all
}

// TestImport_RestoresNoLinks: a row without a code shares no link with others to its URL if it is
// protected, and does not restore one that a member has deleted.
func TestImport_RestoresNoLinks(t *testing.T) {
	t.Parallel()
	const header = "id,url,password\n"
	filler := strings.Builder{}
	for i := range 600 { // more than a step
		fmt.Fprintf(&filler, "filler%d,https://example.com/filler/%[1]d,\n", i)
	}
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"the same file with another label": {"1,https://example.com/secret,x\n", []string{"CLOSED"}},
		"a row of a later step": {"2,https://example.com/new,x\n" + filler.String() + "3,https://example.com/new,y\n",
			[]string{"CLOSED", "CLOSED"}},
		"a link that a member deleted": {"4,https://example.com/member,x\n", []string{"CLOSED"}},
		"an open row to such a link": {"5,https://example.com/member,\n6,https://example.com/member,\n",
			[]string{"SKIPPED CONFLICT", "SKIPPED CONFLICT"}},
		"an open row to a purged link": {"7,https://example.com/purged,\n8,https://example.com/purged,\n",
			[]string{"CREATED", "UNCHANGED"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := newBundle(t, d)
				b.Quota.Default = 10_000
				purged := b.Make(t, creation.Input{URL: "https://example.com/purged"})
				must.Value(b.Edit.Delete(t.Context(), b.Mine, purged.ID))(t)
				b.Now = b.Now.Add(linktest.Tombstones)
				b.PurgeEnded(t)
				deleted := b.Make(t, creation.Input{URL: "https://example.com/member"})
				must.Value(b.Edit.Delete(t.Context(), b.Mine, deleted.ID))(t)
				in := importer.Settings{Source: importsource.CSV, OnConflict: importer.Skip}
				b.importFile(t, in, []byte(header+"1,https://example.com/secret,x\n"))
				in.Label = "other"
				rows := b.dryAndReal(t, in, header+c.file)
				rows = append(rows[:1:1], rows[max(1, len(rows)-len(c.want)+1):]...)
				if diff := cmp.Diff(c.want, outcomes(rows)); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
				var live []*link.Link
				must.NoError(t,
					d.NewSelect().Model(&live).Where("deleted_at IS NULL").Where("original_url NOT LIKE '%/filler/%'").
						Scan(db.AsSystem(t.Context())))
				for _, l := range live {
					if l.ID != purged.ID {
						t.Errorf("%s is live", l.OriginalURL)
					}
				}
			})
		})
	}
}

// TestImport_KeepsRestrictions: a link with the code and the destination of a row is not the one
// that the row describes if it lacks the row's restrictions, whether it was there before or another
// row has created it.
func TestImport_KeepsRestrictions(t *testing.T) {
	t.Parallel()
	filler := strings.Builder{}
	for i := range 600 { // more than a step
		fmt.Fprintf(&filler, `{"code": "filler%d", "url": "https://example.com/filler/%[1]d"}`+"\n", i)
	}
	rowsOf := func(code, url string) string {
		text := strings.Builder{}
		for _, more := range []string{``, `, "maxClicks": 5`, `, "maxClicks": 6`, `, "expiresAt": "2030-01-01"`,
			`, "maxClicks": 5, "startsAt": "2020-01-01"`} {
			fmt.Fprintf(&text, `{"id": "%s %s", "code": "%[1]s", "url": "%[3]s"%s}`+"\n", code,
				strings.ReplaceAll(more, `"`, ""), url, more)
		}
		return text.String()
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBundle(t, d)
		b.Quota.Default = 10_000
		b.Make(t, creationtest.Custom("https://example.com/open", "open"))
		b.Make(t, creation.Input{URL: "https://example.com/five", CustomCode: new("five"),
			Fields: linkfield.Change{MaxClicks: optional.Set(new(int64(5)))}})
		in := importer.Settings{Source: importsource.JSONLines, OnConflict: importer.Skip}
		first := `{"id": "1", "code": "fresh", "url": "https://example.com/new", "maxClicks": 5}` + "\n" +
			`{"id": "2", "url": "https://example.com/shared"}` + "\n"
		later := `{"id": "3", "code": "fresh", "url": "https://example.com/new", "maxClicks": 5, "note": "later"}` +
			"\n" +
			`{"id": "4", "code": "fresh", "url": "https://example.com/new", "maxClicks": 6, "note": "later"}` + "\n" +
			`{"id": "5", "url": "https://example.com/shared", "note": "later"}` + "\n" +
			`{"id": "6", "url": "https://example.com/shared", "maxClicks": 5}` + "\n"
		rows := b.dryAndReal(t, in, first+rowsOf("open", "https://example.com/open")+
			rowsOf("five", "https://example.com/five")+
			rowsOf("fresh", "https://example.com/new")+filler.String()+later)
		same, other := "UNCHANGED", "SKIPPED CODE_TAKEN"
		want := []string{"CREATED", "CREATED", same, other, other, other, other, same, same, other, other, other, same,
			same, other, other, other}
		if diff := cmp.Diff(want, outcomes(rows[:len(want)])); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{same, other, same, "FAILED CONFLICT"}, outcomes(rows[len(rows)-4:])); diff != "" {
			t.Errorf("outcomes of a later step (-want +got):\n%s", diff)
		}
		in.Source = importsource.Dub
		rows = b.dryAndReal(t, in,
			`[{"id": "1", "key": "open", "url": "https://example.com/open", "password": "long enough"}]`)
		if diff := cmp.Diff([]string{other}, outcomes(rows)); diff != "" {
			t.Errorf("with a password (-want +got):\n%s", diff)
		}
	})
}

// TestImport_KeepsWhatItsSourceLacks: an update changes the fields that the source describes, and REPLACE all.
func TestImport_KeepsWhatItsSourceLacks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		f := must.Value(b.Folders.Create(t.Context(), b.Mine, "Folder"))(t)
		describe := func(l *link.Link) string {
			must.NoError(t, link.LoadTags(db.AsSystem(t.Context()), b.db, l))
			return strings.TrimSpace(fmt.Sprintln(optional.Value(l.Title), l.Tags, l.StartsAt != nil,
				l.ExpiresAt != nil, optional.Value(l.MaxClicks), l.RedirectStatus, l.Archived, l.StatsPublic,
				l.OriginalURL, optional.Value(l.Note), l.FolderID != nil, optional.Value(l.ExternalID),
				l.Metadata != "", l.Routing != nil && l.Routing.Gate != nil,
				l.Routing != nil && len(l.Routing.Rules) == 1))
		}
		in := importer.Settings{Source: importsource.CSV, OnConflict: importer.Skip, Tags: []string{"given"}}
		rows := b.rows(t, b.importFile(t, in, []byte("code,url\na,https://example.com/1")))
		b.Tick()
		l := b.Change(t, b.Reload(t, &link.Link{ID: *rows[0].LinkID}), linkfield.Change{
			Title: optional.Set(new("title")), Tags: optional.Set([]string{"tag"}), StartsAt: optional.Set(&b.Now),
			ExpiresAt: optional.Set(new(b.Now.Add(time.Hour))), MaxClicks: optional.Set(new(int64(9))),
			RedirectStatus: optional.Set(308), Archived: optional.Set(true), StatsPublic: optional.Set(true),
			Note: optional.Set(new("note")), FolderID: optional.Set(&f.ID), ExternalID: optional.Set(new("id")),
			Metadata: optional.Set([]*linkfield.Pair{{Key: "k", Value: "v"}}),
			Routing: optional.Set(&routing.Change{
				Gate: optional.Set(&routing.GateChange{Confirm: optional.Set(new(true))}),
				Rules: optional.Set(
					[]*routing.Rule{{Targets: []*routing.Target{{URL: new("https://example.com/rule")}}}}),
			}),
		})
		for _, c := range []struct{ file, want string }{
			{"code,url\na,https://example.com/2",
				"title [given tag] true true 9 308 true true https://example.com/2 note true id true true true"},
			{
				"code,url,note,folder\na,https://example.com/3,,",
				"title [given tag] true true 9 308 true true https://example.com/3  false id true true true",
			},
			{
				"code,url,title,tags,startsAt,expiresAt,maxClicks,redirectStatus,archived\n" +
					"a,https://example.com/4,,,,,,,",
				"[given] false false 0 302 false true https://example.com/4  false id true true true",
			},
		} {
			wantSaid(t, c.file, b.rows(t, b.importFile(t, in, []byte(c.file))), "UPDATED a")
			if got := describe(b.Reload(t, l)); got != c.want {
				t.Errorf("after %q: %s, want %s", c.file, got, c.want)
			}
		}
		in.Label, in.OnConflict = "other", importer.Replace
		b.importFile(t, in, []byte("code,url\na,https://example.com/5"))
		if got := describe(b.Reload(t, l)); got != "[given] false false 0 302 false false https://example.com/5  "+
			"false  false false false" {
			t.Errorf("replaced: %s", got)
		}

		in.Source, in.OnConflict = importsource.Dub, importer.Skip
		file := `[{"id": "1", "key": "b", "url": "https://example.com/", "password": %s}]`
		rows = b.rows(t, b.importFile(t, in, fmt.Appendf(nil, file, `"long enough"`)))
		if l := b.Reload(t, &link.Link{ID: *rows[0].LinkID}); l.Routing == nil || l.Routing.Gate == nil {
			t.Fatal("the link has no password")
		}
		b.importFile(t, in, fmt.Appendf(nil, file, "null"))
		if l := b.Reload(t, &link.Link{ID: *rows[0].LinkID}); l.Routing != nil && l.Routing.Gate != nil {
			t.Error("the source has removed its password, and the link keeps it")
		}
	})
}

// TestRestoreRootCodes_BelievesSignatures: an archive has at the root what its text says, and its code
// works there if this server, or one with the same secret and public URL, has signed it.
func TestRestoreRootCodes_BelievesSignatures(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Import.PublicURL, b.Import.RootKeys = "http://sho.rt", [][]byte{[]byte("a secret"), []byte("the one before")}
		there := *b.Import // where the archive is from
		there.RootKeys = b.Import.RootKeys[1:]
		foreign, elsewhere := there, there
		foreign.RootKeys, elsewhere.PublicURL = [][]byte{[]byte("a guess")}, "http://other.example"
		prove := func(s importer.Store, id, code string) string {
			l := &link.Link{ID: id, Code: code, RootCode: &code, In: b.Mine, WorkspaceID: b.Mine.ID()}
			return optional.Value(must.Value(s.Archived(t.Context(), b.Mine, []*link.Link{l}))(t)[0].RootProof)
		}
		for code, proof := range map[string]string{
			"signed":           prove(there, "lnk_signed", "signed"),
			"signed-now":       prove(*b.Import, "lnk_signed-now", "signed-now"),
			"edited":           prove(there, "lnk_edited", "another"),
			"another-link":     prove(there, "lnk_x", "another-link"),
			"unsigned":         "",
			"of-another-key":   prove(foreign, "lnk_of-another-key", "of-another-key"),
			"of-another-place": prove(elsewhere, "lnk_of-another-place", "of-another-place"),
		} {
			l := b.Make(t, creation.Input{URL: "https://example.com/" + code, CustomCode: &code})
			origin := &importer.Origin{
				WorkspaceID: b.Mine.ID(), Source: importsource.Linkforge, SourceID: "lnk_" + code, LinkID: l.ID,
				SourceURL: new("http://sho.rt/" + code), Hash: []byte{1}, ImportedAt: b.Now, RootProof: proof,
			}
			must.Value(b.db.NewInsert().Model(origin).Exec(db.AsSystem(t.Context())))(t)
		}
		for i, want := range []int64{2, 0} {
			err := b.db.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
				n, refused, err := b.Import.RestoreRootCodes(ctx, tx, b.Mine.ID())
				names := []string{"another-link", "edited", "of-another-key", "of-another-place", "unsigned"}
				if diff := cmp.Diff(names, refused); diff != "" || n != want {
					t.Errorf("call %d: %d codes, refused (-want +got):\n%s", i, n, diff)
				}
				return err
			})
			must.NoError(t, err)
		}
	})
}
