package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// TestWalk_DisclosesNothingOutsideOfFence is TestWalk_DisclosesNothingOfOtherWorkspaces for API
// keys that are restricted to folders: links of the same workspace outside of these are like
// another tenant's, except that their URLs, codes and external ids are in use.
func TestWalk_DisclosesNothingOutsideOfFence(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		walkFence(t, embedded(t))
	})
	t.Run("postgres", func(t *testing.T) { // the conditions are the same
		suitetest.ExhaustiveOnly(t)
		t.Parallel()
		walkFence(t, production(t))
	})
}

// fenceScopes are the permissions that keys with folders can have.
var fenceScopes = []string{"LINKS_READ", "LINKS_WRITE", "STATS_READ", "DOMAINS_READ"}

func walkFence(t *testing.T, b backend) {
	w := newWalker(t, b)
	s := w.server
	w.isFenced = true
	bridge := (&estate{t: t, s: s}).newUser("bridge", word("bridge")+"@example.com", "bridge")
	w.own = newEstate(t, s, b, "m", bridge, 1)
	d := must.Value(b.open())(t)
	defer d.Close()
	inside := w.own.ids[folderIDs][0]
	must.Value(d.NewUpdate().Table("links").Set("folder_id = ?", inside).Where("workspace_id = ?", w.own.workspaceID()).
		Exec(db.AsSystem(t.Context())))(t)
	empty := textAt(w.own.mutate(w.own.members["OWNER"], "createFolder",
		map[string]any{"workspaceId": w.own.workspaceID(), "name": w.own.text("empty")}, "folder { id }"), "folder",
		"id")
	w.foreign = newOutside(w.own, d)
	w.runJobs()
	before := w.foreign.linkRows(d)
	w.known = fmt.Sprint(w.own.rows(d))
	fenced := func(name string, tries effort, folders []string, scopes ...string) *caller {
		got := w.own.mutate(w.own.members["OWNER"], "createApiKey", map[string]any{
			"workspaceId": w.own.workspaceID(), "name": w.own.text("key"), "scopes": scopes, "folderIds": folders,
		}, "secret")
		return w.newCaller(name, user{client: client{server: s, token: textAt(got, "secret")}}, tries, false)
	}
	w.callers = []*caller{
		fenced("a key with a folder", thorough, []string{inside}, fenceScopes...),
		fenced("a key with folders", suitetest.Size(usual, thorough), []string{inside, empty}, fenceScopes...),
		fenced("a key that reads", brief, []string{inside}, "LINKS_READ"),
	}
	_, unfenced := w.own.key(fenceScopes...)
	w.showsOutside(unfenced)

	w.walkAll()

	if diff := cmp.Diff(before, w.foreign.linkRows(d)); diff != "" {
		t.Errorf("the links outside have changed (-before +after):\n%s", diff)
	}
}

// showsOutside fails the test unless a key without folders sees objects outside of the fence: else the
// walk would prove nothing.
func (w *walker) showsOutside(token string) {
	w.t.Helper()
	c := w.newCaller("a key without folders", user{client: client{server: w.server, token: token}}, usual, false)
	reads, _ := w.attempts()
	found := map[string]bool{}
	for _, a := range reads {
		if a.rare || a.way[0].parent.Name == w.schema.subscription {
			continue
		}
		for _, key := range w.foreignKeys(a) {
			if w.exposed(c.send(a, map[string]string{key: a.kind(key).wrapped(a.kind(key).all(w.foreign)[0])})) != "" {
				found[a.name()] = true
			}
		}
	}
	for _, name := range []string{"Query.link", "Query.node", "Query.nodes", "Workspace.links"} {
		if !found[name] {
			w.t.Errorf("%s shows a key without folders nothing outside: the walk would not find it either", name)
		}
	}
}

// newOutside creates links and a folder in the workspace of an estate. Their texts have a mark of their own.
func newOutside(in *estate, d *db.DB) *estate {
	t := in.t
	t.Helper()
	e := &estate{
		t: t, s: in.s, mark: word("z"), bridge: in.bridge, members: in.members, ids: map[*kind][]string{},
		links: map[string]string{}, secrets: map[string]bool{},
	}
	e.ids[workspaceIDs] = in.ids[workspaceIDs]
	e.createCommon(e.members["OWNER"])
	e.fillPool(poolSize)
	e.click("exhausted")
	e.click("plain")
	e.readClicks(d, "link_id", e.ids[linkIDs])
	events := []string{}
	must.NoError(t, d.NewSelect().Table("audit_events").Column("id").
		Where("target_id IN (?)", bun.In(e.ids[linkIDs])).Order("id").Scan(db.AsSystem(t.Context()), &events))
	e.ids[eventIDs] = events
	for _, ids := range e.ids {
		for _, one := range ids {
			e.secrets[one] = anID.MatchString(one) && !slices.Contains(e.ids[workspaceIDs], one)
		}
	}
	delete(e.ids, workspaceIDs) // the same as the callers'
	return e
}

// linkRows returns the rows of the estate's links, with those of other tables about them, as JSON by table.
func (e *estate) linkRows(d *db.DB) map[string][]string {
	e.t.Helper()
	found := map[string][]string{}
	columns := map[string]string{"links": "id", "audit_events": "target_id", "folders": "id"}
	for table, all := range tablesOf(e.t, d) {
		// anyone may report a link
		if slices.Contains(all, "link_id") && !slices.Contains(publicTables, table) && table != "reports" {
			columns[table] = "link_id"
		}
	}
	ids := slices.Concat(e.ids[linkIDs], e.ids[folderIDs])
	for table, column := range columns {
		found[table] = read(e.t, must.Value(d.NewSelect().TableExpr("?", bun.Ident(table)).
			Where("? IN (?)", bun.Ident(column), bun.In(ids)).Rows(db.AsSystem(e.t.Context())))(e.t))
	}
	return found
}

// foreignKeys are the places of an attempt that take an object which the other estate has.
func (w *walker) foreignKeys(a attempt) []string {
	return slices.DeleteFunc(a.namesSomething(), func(key string) bool { return len(a.kind(key).all(w.foreign)) == 0 })
}

// existence are the codes that say that a URL, a code or an external id is in use.
var existence = []string{"CONFLICT", "CODE_TAKEN", "EXTERNAL_ID_TAKEN"}

// saysExistence reports whether a response about what is outside of a fence, other than that about
// what does not exist, says no more than that it exists: a name is in use, or the caller may not do
// so with objects of its own either.
func (c *caller) saysExistence(a attempt, given map[string]string, got, want call) bool {
	if !c.isFenced || !a.writes {
		return false
	}
	forbidden := []string{"FORBIDDEN"}
	if slices.Equal(got.codes(), forbidden) && slices.Equal(want.codes(), []string{"NOT_FOUND"}) {
		return slices.Equal(c.send(a, nil).codes(), forbidden)
	}
	isOther := func(code string) bool {
		return !slices.Contains(existence, code) && !slices.Contains(want.codes(), code)
	}
	return a.fromPool(given) && len(got.codes()) > 0 && !slices.ContainsFunc(got.codes(), isOther)
}
