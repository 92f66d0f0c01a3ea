package importer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// undo undoes an import, whose links must all be undone.
func (b *bundle) undo(t *testing.T, of *task.Task) {
	t.Helper()
	b.Tick()
	for remaining := 1; remaining > 0; {
		undo := must.Value(b.Edit.RevertOperation(t.Context(), b.Mine, of.OperationID))(t)
		for i, r := range undo.Results {
			if r.Err != nil {
				t.Errorf("undoing %s: %v", undo.LinkIDs[i], r.Err)
			}
		}
		remaining = undo.Remaining
	}
	b.Tick()
}

// live returns the codes of the links that are not deleted, with their titles.
func (b *bundle) live(t *testing.T) string {
	t.Helper()
	var links []*link.Link
	must.NoError(t, b.db.NewSelect().Model(&links).Where("deleted_at IS NULL").Order("code").
		Scan(db.AsSystem(t.Context())))
	var all []string
	for _, l := range links {
		all = append(all, l.ShownCode()+"="+optional.Value(l.Title))
	}
	return strings.Join(all, " ")
}

// TestImport_IsRepeatedAfterUndo: a repeated import has the outcomes of the first one, in a dry run
// too, whatever its label, its policy and how often it was undone. What members have deleted stays
// deleted.
func TestImport_IsRepeatedAfterUndo(t *testing.T) {
	t.Parallel()
	const file = `{"id": "1", "code": "Open", "url": "https://example.com/open", "title": "T", "externalId": "E"}` +
		"\n" + `{"id": "2", "url": "https://example.com/generated", "title": "T"}` + "\n" +
		`{"id": "3", "url": "https://example.com/generated", "title": "T"}` + "\n" +
		`{"id": "4", "code": "secret", "url": "https://example.com/secret", "password": "x"}` + "\n" +
		`{"id": "1", "code": "Open", "url": "https://example.com/open", "title": "T", "externalId": "E"}`
	want := []string{"CREATED", "CREATED", "UNCHANGED", "CLOSED", "UNCHANGED"}
	for name, again := range map[string]importer.Settings{
		"the same":       {OnConflict: importer.Skip},
		"another label":  {OnConflict: importer.Skip, Label: "other"},
		"RENAME":         {OnConflict: importer.Rename, Label: "other"},
		"REPLACE":        {OnConflict: importer.Replace},
		"another source": {OnConflict: importer.Skip, Source: importsource.Kutt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := newBundle(t, d)
				in := importer.Settings{Source: importsource.JSONLines, OnConflict: importer.Skip}
				first := b.importFile(t, in, []byte(file))
				rows := b.rows(t, first)
				if diff := cmp.Diff(want, outcomes(rows)); diff != "" {
					t.Fatalf("the first import (-want +got):\n%s", diff)
				}
				live := b.live(t)
				again, text, wanted := again, file, want
				if again.Source == "" {
					again.Source = importsource.JSONLines
				} else {
					text = `[{"id": "9", "address": "open", "target": "https://example.com/other"}]`
					wanted = []string{"CREATED"}
				}
				b.undo(t, first)
				for range 2 {
					if now := b.live(t); now != "" {
						t.Errorf("after undoing: %s", now)
					}
					repeated := b.dryAndReal(t, again, text)
					if diff := cmp.Diff(wanted, outcomes(repeated)); diff != "" {
						t.Errorf("the repeated import (-want +got):\n%s", diff)
					}
					if *repeated[0].LinkID != *rows[0].LinkID || *repeated[0].Code != "Open" {
						t.Errorf("another link has the code: %s", *repeated[0].Code)
					}
					if now := b.live(t); again.Source == importsource.JSONLines && now != live {
						t.Errorf("after repeating: %s, want %s", now, live)
					}
					b.undo(t, b.newest(t))
				}

				must.Value(b.Edit.Restore(t.Context(), b.Mine, *rows[0].LinkID))(t)
				must.Value(b.Edit.Delete(t.Context(), b.Mine, *rows[0].LinkID))(t)
				if again.OnConflict != importer.Skip {
					return
				}
				if got := outcomes(b.dryAndReal(t, again, text))[0]; got != "SKIPPED CODE_TAKEN" {
					t.Errorf("a link that a member has deleted: %s", got)
				}
			})
		})
	}
}

// TestImport_UndoneRenamesAreRepeated: rows whose codes are taken get those codes back that they had
// before the import was undone, in any order, whatever its label and how often it was undone.
func TestImport_UndoneRenamesAreRepeated(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Make(t, creationtest.Custom("https://example.com/mine", "x"))
		rows := []string{"x,https://example.com/a,A", "x,https://example.com/b,B", "x,https://example.com/b,C",
			"twin,https://example.com/c,D", "twin,https://example.com/d,E"}
		ids := map[string]string{}
		for round, c := range []struct {
			label string
			order []int
			live  string
		}{
			{"", []int{0, 1, 2, 3, 4}, "twin=D twin-2=E x= x-2=A x-3=B x-4=C"},
			{"", []int{0, 1, 2, 3, 4}, "twin=D twin-2=E x= x-2=A x-3=B x-4=C"},
			{"other", []int{1, 2, 3, 0, 4}, "twin=D twin-2=E x= x-2=A x-3=B x-4=C"},
			{"", []int{2, 3, 4}, "twin=D twin-2=E x= x-3=C"},
			{"", []int{0, 1, 2, 3, 4}, "twin=D twin-2=E x= x-2=A x-3=B x-4=C"},
		} {
			text, want := "id,code,url,title\n", []string(nil)
			for _, i := range c.order {
				text += fmt.Sprint(i, ",", rows[i], "\n")
				outcome := "RENAMED"
				if i == 3 {
					outcome = "CREATED"
				}
				want = append(want, outcome)
			}
			in := importer.Settings{Source: importsource.CSV, OnConflict: importer.Rename, Label: c.label}
			got := b.dryAndReal(t, in, text)
			if diff := cmp.Diff(want, outcomes(got)); diff != "" {
				t.Errorf("round %d: outcomes (-want +got):\n%s", round, diff)
			}
			for _, row := range got {
				if id := ids[*row.Code]; id != "" && id != *row.LinkID {
					t.Errorf("round %d: another link has %s", round, *row.Code)
				}
				ids[*row.Code] = *row.LinkID
			}
			if live := b.live(t); live != c.live {
				t.Errorf("round %d: %s, want %s", round, live, c.live)
			}
			b.undo(t, b.newest(t))
		}
	})
}

// newest returns the import that was created last.
func (b *bundle) newest(t *testing.T) *task.Task {
	t.Helper()
	var newest task.Task
	must.NoError(t, b.db.NewSelect().Model(&newest).Order("id DESC").Limit(1).Scan(db.AsSystem(t.Context())))
	return &newest
}

// TestImport_UndoneUpdatesAreRepeated: undoing an import that changed links restores them, whether it
// had closed them or replaced those of others, and what earlier imports remember.
func TestImport_UndoneUpdatesAreRepeated(t *testing.T) {
	const header = "code,url,title,password\n"
	for name, c := range map[string]struct {
		before, after, between, want string
		policy                       importer.ConflictPolicy
		live                         string
	}{
		"changed": {"a,https://example.com/a,one,\n", "a,https://example.com/a,two,\n", "", "UPDATED", importer.Skip,
			"a=one"},
		"closed": {"a,https://example.com/a,one,\n", "a,https://example.com/a,two,x\n", "", "CLOSED", importer.Skip,
			"a=one"},
		"imported again meanwhile": {"a,https://example.com/a,one,\n", "a,https://example.com/a,two,\n",
			"a,https://example.com/a,two,\n", "UPDATED", importer.Skip, "a=one"},
		"replaced": {"", "mine,https://example.com/a,two,\n", "", "UPDATED", importer.Replace, "mine="},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, b *bundle) {
				in := importer.Settings{Source: importsource.CSV, OnConflict: c.policy}
				if c.before == "" {
					b.Make(t, creationtest.Custom("https://example.com/mine", "mine"))
				} else {
					b.importFile(t, in, []byte(header+c.before))
				}
				b.Tick()
				changed := b.importFile(t, in, []byte(header+c.after))
				if got := outcomes(b.rows(t, changed))[0]; got != c.want {
					t.Fatalf("the change: %s, want %s", got, c.want)
				}
				if c.between != "" {
					if got := outcomes(b.dryAndReal(t, in, header+c.between))[0]; got != "UNCHANGED" {
						t.Errorf("again: %s", got)
					}
				}
				b.undo(t, changed)
				if got := b.live(t); got != c.live {
					t.Errorf("after undoing: %q, want %q", got, c.live)
				}
				if c.before != "" {
					if got := outcomes(b.dryAndReal(t, in, header+c.before))[0]; got != "UNCHANGED" {
						t.Errorf("the file before the change: %s", got)
					}
				} else { // without the policy, the link of others stays
					in.OnConflict = importer.Skip
					if got := outcomes(b.dryAndReal(t, in, header+c.after))[0]; got != "SKIPPED CODE_TAKEN" {
						t.Errorf("without REPLACE: %s", got)
					}
					in.OnConflict = c.policy
				}
				if got := outcomes(b.dryAndReal(t, in, header+c.after))[0]; got != c.want {
					t.Errorf("repeated: %s, want %s", got, c.want)
				}
			})
		})
	}
}

// TestImport_UndoesAChain backwards: after each undo, the files before it change nothing, and that after
// it changes the link again.
func TestImport_UndoesAChain(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const header = "id,code,url,title,disabled\n"
		files := []string{"1,a,https://example.com/a,one,\n2,b,https://example.com/b,one,yes\n",
			"1,a,https://example.com/a,two,\n2,b,https://example.com/b,two,yes\n",
			"1,a,https://example.com/a,three,yes\n2,b,https://example.com/b,three,yes\n",
			"1,a,https://example.com/four,four,yes\n2,b,https://example.com/b,three,yes\n"}
		in := importer.Settings{Source: importsource.CSV, OnConflict: importer.Skip}
		var lives []string
		var imports []*task.Task
		var did [][]string
		importNext := func(i int) {
			b.Tick()
			ended := b.importFile(t, in, []byte(header+files[i]))
			imports, did = append(imports[:i], ended), append(did, outcomes(b.rows(t, ended)))
		}
		for i := range files {
			importNext(i)
			lives = append(lives, b.live(t))
		}
		for i := len(files) - 1; i > 0; i-- {
			for range 2 {
				b.undo(t, imports[i])
				if live := b.live(t); live != lives[i-1] {
					t.Errorf("without file %d: %s, want %s", i, live, lives[i-1])
				}
				got := outcomes(b.dryAndReal(t, in, header+files[i-1]))
				if !slices.Equal(got, []string{"UNCHANGED", "UNCHANGED"}) {
					t.Errorf("file %d again: %v", i-1, got)
				}
				importNext(i)
				if got := did[len(did)-1]; !slices.Equal(got, did[i]) {
					t.Errorf("file %d: %v, first %v", i, got, did[i])
				}
			}
			b.undo(t, imports[i])
		}
		b.undo(t, imports[0])
		if live := b.live(t); live != "" {
			t.Errorf("without any: %s", live)
		}
		importNext(0)
		if got := did[len(did)-1]; !slices.Equal(got, did[0]) {
			t.Errorf("the first file: %v, first %v", got, did[0])
		}
	})
}

// TestImport_UndoesLateRows: the id of an import is created long before its last rows if it waits for
// its file.
func TestImport_UndoesLateRows(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ended := b.importFile(t, importer.Settings{Source: importsource.CSV, OnConflict: importer.Skip},
			[]byte("code,url\nlate,https://example.com/late"))
		early := "opn_" + strings.Repeat("0", 26)
		for _, column := range []string{"tasks operation_id", "audit_events operation_id", "links version_operation"} {
			table, name, _ := strings.Cut(column, " ")
			text := fmt.Sprintf("UPDATE %s SET %s = ? WHERE %[2]s IS NOT NULL", table, name)
			must.Value(b.db.ExecContext(db.AsSystem(t.Context()), text, early))(t)
		}
		must.Value(b.db.ExecContext(db.AsSystem(t.Context()), "UPDATE tasks SET finished_at = ?",
			time.Now().Add(time.Hour)))(t)
		ended.OperationID = early
		b.undo(t, ended)
		if got := b.live(t); got != "" {
			t.Errorf("after undoing: %s", got)
		}
	})
}

// TestImport_OutcomesNameTheirLinks: a repeated row has the link, or the error, of the row that it
// repeats, and a code that needs another code space says which. A dry run counts the quota, too.
func TestImport_OutcomesNameTheirLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = 3
		b.Make(t, creationtest.Custom("https://example.com/0", "zero"))
		file := ""
		for _, code := range []string{"one", "two", "two", "three", "three", "x/y", "LOGIN", "One", "a//b"} {
			file += fmt.Sprintf(`{"id": "%s", "code": "%[1]s", "domain": "a.example", `+
				`"url": "https://example.com/%[1]s"}`+"\n", code)
		}
		file += `{"id": "other host", "code": "two", "domain": "b.example", "url": "https://example.com/b"}` + "\n"
		rows := b.dryAndReal(t, importer.Settings{Source: importsource.JSONLines, OnConflict: importer.Skip}, file)
		wantSaid(t, "rows", rows, "CREATED one", "CREATED two", "UNCHANGED two", "FAILED  QUOTA_EXCEEDED",
			"FAILED  QUOTA_EXCEEDED", "FAILED  INVALID_INPUT", "FAILED  CODE_RESERVED", "SKIPPED  CODE_TAKEN",
			"FAILED  INVALID_INPUT", "SKIPPED  CODE_TAKEN")
		if rows[2].LinkID == nil || *rows[2].LinkID != *rows[1].LinkID || b.Used(t) != 3 {
			t.Errorf("the repeated row has another link, or %d links are used", b.Used(t))
		}
		for _, i := range []int{5, 6, 7, 9} {
			if text := optional.Value(rows[i].Errors); !strings.Contains(text, "codeSpace: OWN") {
				t.Errorf("row %d: %s", i+1, text)
			}
		}
		if text := optional.Value(rows[8].Errors); strings.Contains(text, "codeSpace: OWN") {
			t.Errorf("a code that no domain can have: %s", text)
		}
	})
}
