package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// exported is an export as tests read it.
type exported struct {
	ID, Status  string
	Done, Total int64
	Failure     *struct{ Code, Message string }
	Report      struct {
		URL       *string
		Bytes     int64
		SHA256    string
		Sections  []struct{ Kind, SHA256 string }
		RemovedAt *time.Time
	}
}

const exportedFields = `id status done total failure { code message } report { ... on WorkspaceArchive { url bytes
	sha256
	sections { kind sha256 } removedAt } }`

// export exports a workspace, and returns the task when it has ended.
func (c client) export(t *testing.T, workspaceID string, sections ...string) (it exported) {
	t.Helper()
	in := map[string]any{"workspaceId": workspaceID}
	if sections != nil {
		in["sections"] = sections
	}
	got := c.ask(t, `mutation ($in: ExportWorkspaceInput!) { exportWorkspace(input: $in) { task { id }
		errors { message code } } }`, map[string]any{"in": in})
	return c.exportOf(t, got.text("exportWorkspace.task.id"))
}

// exportOf waits for the end of an export.
func (c client) exportOf(t *testing.T, taskID string) (it exported) {
	t.Helper()
	polltest.Until(t, "the export has ended", func() bool {
		var got struct{ Node exported }
		c.must(t, &got, `query ($id: ID!) { node(id: $id) { ... on Task { `+exportedFields+` } } }`,
			map[string]any{"id": taskID})
		it = got.Node
		return slices.Contains([]string{"SUCCEEDED", "FAILED", "CANCELED"}, it.Status)
	})
	if it.Status != "SUCCEEDED" {
		t.Fatalf("the export is %s: %+v", it.Status, it.Failure)
	}
	return it
}

// archive downloads an archive.
func (s *server) archive(t *testing.T, it exported) []byte {
	t.Helper()
	a := s.expect(t, http.StatusOK, http.MethodGet, strings.TrimPrefix(*it.Report.URL, s.public))
	if hash := hashOf(a.body); hash != it.Report.SHA256 || int64(len(a.body)) != it.Report.Bytes {
		t.Fatalf("%d bytes with the hash %s, want %d and %s", len(a.body), hash, it.Report.Bytes, it.Report.SHA256)
	}
	return []byte(a.body)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// filesOf returns the files of an archive.
func filesOf(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, e := range entriesOf(t, archive) {
		files[e.Name] = string(e.content)
	}
	return files
}

// recordsOf returns the records of a section.
func recordsOf(t *testing.T, files map[string]string, section string) (records []map[string]any) {
	t.Helper()
	for i := 1; ; i++ {
		file, ok := files[fmt.Sprintf("%s/%05d.jsonl", section, i)]
		if !ok {
			return records
		}
		for line := range strings.Lines(file) {
			var r map[string]any
			must.NoError(t, json.Unmarshal([]byte(line), &r))
			records = append(records, r)
		}
	}
}

// normalLinks returns the links and folders of an archive without what importing it elsewhere
// changes: ids, times, click numbers and origins in archives. All strategies become CUSTOM, and limits
// are the remaining clicks.
func normalLinks(t *testing.T, files map[string]string) (links []map[string]any) {
	t.Helper()
	for _, f := range recordsOf(t, files, "folders") {
		links = append(links, map[string]any{"folder": f["name"]})
	}
	for _, l := range recordsOf(t, files, "links") {
		if limit, ok := l["maxClicks"].(float64); ok {
			l["maxClicks"] = limit - l["clickCount"].(float64)
		}
		l["deletedAt"] = l["deletedAt"] != nil
		for _, name := range []string{"id", "shortUrl", "strategy", "createdAt", "updatedAt", "clickCount",
			"lastClickedAt", "rootProof"} {
			delete(l, name)
		}
		origins := []any{}
		for _, o := range l["origins"].([]any) {
			if o := o.(map[string]any); o["source"] != "LINKFORGE" {
				delete(o, "importedAt")
				origins = append(origins, o)
			}
		}
		l["origins"] = origins
		links = append(links, withoutIDs(l).(map[string]any))
	}
	return links
}

func withoutIDs(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range []string{"id", "ruleId", "targetId"} {
			delete(value, name)
		}
		for name := range value {
			value[name] = withoutIDs(value[name])
		}
	case []any:
		for i := range value {
			value[i] = withoutIDs(value[i])
		}
	}
	return value
}

// fill creates links of all kinds, with folders.
func (c tenant) fill(t *testing.T, s *server) {
	t.Helper()
	folder := c.folder(t, "März")
	c.folder(t, "empty")
	custom := func(code string, more map[string]any) map[string]any {
		link := map[string]any{"url": "https://example.com/" + code, "strategy": "CUSTOM", "customCode": code}
		maps.Copy(link, more)
		return link
	}
	links := []any{
		map[string]any{"url": "https://example.com/plain?a=1#b"},
		map[string]any{"url": "https://example.com/counter", "strategy": "COUNTER"},
		map[string]any{"url": "https://example.com/random", "strategy": "RANDOM"},
		custom("texts", map[string]any{
			"title": "Ein „Titel“ <b>", "note": "one\ntwo", "tags": []any{"b", "Á", "a,b|c"}, "folderId": folder,
			"externalId": "crm/1", "metadata": []any{map[string]any{"key": "team", "value": "growth"},
				map[string]any{"key": "empty", "value": ""}},
		}),
		custom("times", map[string]any{"startsAt": "2030-01-01T00:00:00.123456Z", "expiresAt": "2031-01-01T00:00:00Z"}),
		custom("limit", map[string]any{"maxClicks": 5}), custom("used", map[string]any{"maxClicks": 1}),
		custom("moved", map[string]any{"redirectStatus": 308, "archived": true, "statsPublic": true}),
		custom("gone", nil),
		custom("routed", map[string]any{"routing": map[string]any{
			"rules": []any{map[string]any{
				"name": "germans", "when": []any{map[string]any{"country": []any{"DE", "AT"}}}, "stickiness": "VISITOR",
				"unless": []any{map[string]any{"device": []any{"desktop"}}},
				"targets": []any{map[string]any{"url": "https://example.de/", "share": 3, "name": "a"},
					map[string]any{"share": 1, "maxClicks": 9}},
			}},
			"query": map[string]any{"mode": "ADD"}, "forwardPath": true,
			"utm":        map[string]any{"source": "news", "campaign": "ü"},
			"pendingUrl": "https://example.com/soon", "endedUrl": "https://example.com/over", "bots": "BLOCK",
			"card": map[string]any{"title": "Card", "description": "Text", "imageUrl": "https://example.com/i.png",
				"imageAlt": "alt"},
			"gate":      map[string]any{"notice": "Read <this>", "confirm": true},
			"qrSources": []any{"poster"},
			"tests": []any{map[string]any{"name": "german", "visit": map[string]any{"country": "DE"},
				"status": 302}},
		}}),
	}
	created := c.ask(t, `mutation ($in: CreateLinksInput!) { createLinks(input: $in) { results { link { id }
		errors { message code field } } errors { message code field } } }`,
		map[string]any{"in": map[string]any{"workspaceId": c.workspaceID, "links": links}})
	for i := range links {
		if created.at(fmt.Sprintf("createLinks.results.%d.link", i)) == nil {
			t.Fatalf("%v", created)
		}
	}
	c.do(t, "deleteLink", map[string]any{"id": created.at("createLinks.results.8.link.id")})
	for _, path := range []string{"limit", "limit", "used"} {
		s.expect(t, http.StatusFound, http.MethodGet, "/"+c.slug+"/"+path)
	}
	got := outcomes(c.importCSV(t, map[string]any{"label": "old", "dryRun": false},
		"id,code,url,clicks\n7,from-old,https://example.com/from-old,9\n"))
	if got != "SUCCEEDED 1 of 1: CREATED 1" {
		t.Fatal(got)
	}
}

// importArchive imports an archive, after a dry run, and returns what became of its rows.
func (c tenant) importArchive(t *testing.T, s *server, archive []byte) string {
	t.Helper()
	taskID, uploadURL := c.createImport(t, map[string]any{"workspaceId": c.workspaceID, "source": "LINKFORGE"})
	if status := s.upload(t, uploadURL, archive); status != http.StatusCreated {
		t.Fatalf("the upload answers %d", status)
	}
	dry := c.ended(t, taskID)
	it := c.applied(t, taskID)
	if outcomes(dry) != outcomes(it) {
		t.Errorf("the dry run: %s, the import: %s", outcomes(dry), outcomes(it))
	}
	return outcomes(it) + fmt.Sprint(it.Report.Losses)
}

// TestArchive_RestoresWorkspaces exports a workspace, and imports the archive into itself, which
// changes nothing, and into an empty one, whose archive is then the same but for what belongs to
// the place.
func TestArchive_RestoresWorkspaces(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		ada, grace := s.tenant(t, "ada"), s.tenant(t, "grace")
		ada.fill(t, s)
		polltest.Until(t, "the clicks are counted", func() bool { return b.countClicks(t, "") == 3 })
		first := ada.export(t, ada.workspaceID)
		if first.Done == 0 || first.Done != first.Total || first.Report.RemovedAt == nil {
			t.Errorf("%+v", first)
		}
		archive := s.archive(t, first)
		files := filesOf(t, archive)
		if n := len(recordsOf(t, files, "links")); n != 11 {
			t.Fatalf("the archive has %d links: %v", n, files["links/00001.jsonl"])
		}
		same(t, "members", fmt.Sprint(recordsOf(t, files, "members")), "[map[email:ada@example.com role:OWNER]]")
		if n := len(recordsOf(t, files, "versions")); n != 12 { // and one of the deleted link
			t.Errorf("%d versions", n)
		}
		all := ada.export(t, ada.workspaceID, "CLICKS", "AUDIT", "LINKS")
		got := filesOf(t, s.archive(t, all))
		if strings.Count(got["clicks/"+time.Now().UTC().Format("2006-01")+".jsonl"], "\n") != 3 ||
			!strings.Contains(got["audit/00001.jsonl"], `"WORKSPACE_CREATED"`) || len(got) != 4 {
			t.Errorf("all sections: %v", got)
		}
		if got := all.Report.Sections[0]; !slices.Contains(first.Report.Sections, got) {
			t.Errorf("the hash of an unchanged section differs: %v, %v", first.Report.Sections, got)
		}

		imports := func(when string, into tenant, want string) {
			t.Helper()
			want = "SUCCEEDED 11 of 11: " + want +
				"[{maxClicks APPROXIMATED} {routing.rules.targets.maxClicks APPROXIMATED}]"
			same(t, when, into.importArchive(t, s, archive), want)
		}
		imports("into its own workspace", ada, "UNCHANGED 11")
		ada.do(t, "updateLink", map[string]any{"id": recordsOf(t, files, "links")[0]["id"], "title": "changed"})
		imports("after a change", ada, "UNCHANGED 10, SKIPPED 1")
		imports("into an empty workspace", grace, "CREATED 9, CLOSED 2")
		imports("again", grace, "UNCHANGED 11")
		var moved string
		for _, l := range recordsOf(t, files, "links") {
			if l["strategy"] == "COUNTER" {
				moved = l["code"].(string)
			}
		}
		restore := []string{"workspaces", "restore-root-codes", "grace"}
		if out := succeed(t, s.env, restore...); !strings.Contains(out, "grace: 0 more codes") {
			t.Errorf("while the other workspace has the codes: %s", out)
		}
		execute(t, b, "UPDATE links SET root_code = NULL WHERE workspace_id = ?", ada.workspaceID)
		if out := succeed(t, s.env, restore...); !strings.Contains(out, "grace: 3 more codes") {
			t.Errorf("root codes: %s", out)
		}
		polltest.Until(t, "the code works at the root", func() bool {
			return must.Value(s.get("/"+moved))(t).status == http.StatusFound
		})
		second := filesOf(t, s.archive(t, grace.export(t, grace.workspaceID)))
		// which is created deleted, without a limit
		isUsed := func(l map[string]any) bool { return l["code"] == "used" }
		before := slices.DeleteFunc(normalLinks(t, files), isUsed)
		same(t, "the archive of the copy", slices.DeleteFunc(normalLinks(t, second), isUsed), before)
	})
}

// TestArchive_IsDownloadedInRanges over several tokens, until the session ends.
func TestArchive_IsDownloadedInRanges(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		c := s.tenant(t, "ada")
		c.fill(t, s)
		it := c.export(t, c.workspaceID)
		var urls []string
		for range 3 {
			urls = append(urls, strings.TrimPrefix(*c.exportOf(t, it.ID).Report.URL, s.public))
		}
		get := func(status int, url string, headers ...string) answer {
			t.Helper()
			return s.expect(t, status, http.MethodGet, url, headers...)
		}
		tag, content, size := `"`+it.Report.SHA256+`"`, "", (it.Report.Bytes+999)/1000
		for i := int64(0); i*size < it.Report.Bytes; i++ {
			content += get(http.StatusPartialContent, urls[i%3], "Range",
				fmt.Sprintf("bytes=%d-%d", i*size, (i+1)*size-1), "If-Range", tag).body
		}
		if got := hashOf(content); got != it.Report.SHA256 {
			t.Errorf("the ranges have the hash %s, want %s", got, it.Report.SHA256)
		}
		whole := get(http.StatusOK, urls[0], "Range", "bytes=0-9", "If-Range", `"other"`)
		if whole.header.Get("ETag") != tag || whole.header.Get("Accept-Ranges") != "bytes" {
			t.Errorf("another archive's range: %v", whole.header)
		}
		get(http.StatusRequestedRangeNotSatisfiable, urls[0], "Range", fmt.Sprintf("bytes=%d-", it.Report.Bytes))
		get(http.StatusNotFound, urls[0]+"A") // another signature
		c.do(t, "logout", map[string]any{})
		get(http.StatusGone, urls[0])
	})
}
