package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
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
	nextMonth(t)
	s := start(t, b, "LINKFORGE_DESTINATION_CHECKS=off", "LINKFORGE_MAX_COST=20000")
	w := &walker{
		t: t, server: s, schema: schemaOf(t, s), began: time.Now().UTC().Truncate(time.Second), isFenced: true,
		needed: map[string]bool{}, sentNames: map[string]string{},
	}
	w.compareWithTable()
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
	for _, job := range []string{"transitions", "click days"} {
		succeed(t, s.env, "jobs", "run", job)
	}
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
	owner, name := e.members["OWNER"], e.text("folder")
	folder := e.mutate(owner, "createFolder", map[string]any{"workspaceId": e.workspaceID(), "name": name},
		"folder { id }")
	e.ids[folderIDs] = []string{textAt(folder, "folder", "id")}
	e.ids[folderNames], e.ids[folderPlaces] = []string{name}, []string{e.ids[folderIDs][0] + " NAME+ " + name}
	e.ids[externalIDs] = []string{e.text("external")}
	e.link(owner, "plain", map[string]any{
		"externalId": e.ids[externalIDs][0], "metadata": []any{map[string]any{"key": "a", "value": e.text("metadata")}},
	})
	custom := e.link(owner, "custom", map[string]any{
		"strategy": "CUSTOM", "customCode": e.text("code"), "folderId": e.ids[folderIDs][0],
	})
	e.link(owner, "exhausted", map[string]any{"maxClicks": 1})
	e.link(owner, "deleted", nil)
	e.mutate(owner, "deleteLink", map[string]any{"id": e.links["deleted"]}, "")
	operated := e.mutate(owner, "createLinks", map[string]any{
		"workspaceId": e.workspaceID(),
		"links":       []any{map[string]any{"url": "https://example.com/" + e.text("operated")}},
	}, "operationId results { link { id } }")
	e.ids[operationIDs] = []string{textAt(operated, "operationId")}
	e.createRules()
	scheduled := e.mutate(owner, "scheduleLinkChange", map[string]any{
		"linkId": textAt(custom, "id"), "at": time.Now().Add(time.Hour),
		"change": map[string]any{"title": e.text("scheduled")},
	}, "scheduledChange { id }")
	e.ids[scheduledIDs] = []string{textAt(scheduled, "scheduledChange", "id")}
	e.ids[linkCodes], e.ids[shortURLs] = []string{textAt(custom, "code")}, []string{textAt(custom, "shortUrl")}
	e.ids[words], e.ids[tags] = []string{e.mark, "title-plain-" + e.mark}, []string{"tag-plain-" + e.mark}
	e.ids[tagPlaces] = []string{" TAG+ tag-plain-" + e.mark}
	e.fillPool(poolSize)
	e.click("exhausted")
	e.click("plain")
	e.readIDs(d)
	for _, ids := range e.ids {
		for _, one := range ids {
			e.secrets[one] = anID.MatchString(one) && !slices.Contains(e.ids[workspaceIDs], one)
		}
	}
	delete(e.ids, workspaceIDs) // the same as the callers'
	return e
}

// readIDs reads the ids that no response contains.
func (e *estate) readIDs(d *db.DB) {
	e.t.Helper()
	ctx := db.AsSystem(e.t.Context())
	var clicks []click.Click
	var events []string
	must.NoError(e.t,
		d.NewSelect().Table("audit_events").Column("id").Where("target_id IN (?)", bun.In(e.ids[linkIDs])).
			Order("id").Scan(ctx, &events))
	e.ids[eventIDs] = events
	must.NoError(e.t,
		d.NewSelect().Table("clicks").Column("id", "clicked_at").Where("link_id IN (?)", bun.In(e.ids[linkIDs])).
			Order("clicked_at").Scan(ctx, &clicks))
	for _, c := range clicks {
		e.ids[clickIDs] = append(e.ids[clickIDs], c.PublicID())
	}
	e.ids[titlePlaces] = []string{e.links["plain"] + " TITLE+ title-plain-" + e.mark}
	e.ids[clickPlaces] = []string{e.links["plain"] + " CLICKS 1"}
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
		rows := must.Value(d.NewSelect().TableExpr("?", bun.Ident(table)).Where("? IN (?)", bun.Ident(column),
			bun.In(ids)).
			Rows(db.AsSystem(e.t.Context())))(e.t)
		found[table] = read(e.t, rows)
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
