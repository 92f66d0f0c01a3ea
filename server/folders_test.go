package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// folder creates a folder, and returns its id.
func (w tenant) folder(t *testing.T, name string) string {
	t.Helper()
	return w.ask(t, `mutation ($w: ID!, $n: String!) { createFolder(input: {workspaceId: $w, name: $n}) {
		folder { id } } }`, map[string]any{"w": w.workspaceID, "n": name}).text("createFolder.folder.id")
}

// TestFolders_SelectLinksAndClicks: lists, stats and exports of a folder have the links that are in it now.
func TestFolders_SelectLinksAndClicks(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "folders")
		folderID := who.folder(t, "Campaigns")
		in := who.shorten(t, "https://example.com/in", "folderId", folderID, "tags", []string{"spring"}).Link
		untagged := who.shorten(t, "https://example.com/untagged", "folderId", folderID).Link
		out := who.shorten(t, "https://example.com/out", "tags", []string{"spring"}).Link
		for _, l := range []linkView{in, in, untagged, out} {
			s.follow(t, l.path(s))
		}
		want := fmt.Sprintf("map[folders:map[nodes:[map[linkCount:2 name:Campaigns]]] in:map[nodes:[map[id:%s] "+
			"map[id:%s]]] ofBoth:map[clicks:2] ofFolder:map[clicks:3] ofTag:map[clicks:3] ofUnknown:map[clicks:0] "+
			"out:map[nodes:[map[id:%s]]]]", untagged.ID, in.ID, out.ID)
		polltest.Until(t, "the clicks are counted: "+want, func() bool {
			return who.ask(t, `query ($w: ID!, $f: ID!) { workspace(by: {id: $w}) {
				in: links(first: 9, filter: {folderIds: [$f]}) { nodes { id } }
				out: links(first: 9, filter: {inFolder: false}) { nodes { id } }
				folders { nodes { name linkCount } }
				ofFolder: stats(folderId: $f) { clicks } ofBoth: stats(folderId: $f, tag: "spring") { clicks }
				ofTag: stats(tag: "spring") { clicks } ofUnknown: stats(folderId: "nothing") { clicks } } }`,
				map[string]any{"w": who.workspaceID, "f": folderID}).text("workspace") == want
		})
		a := s.expect(t, http.StatusOK, "GET",
			who.exportURL(t, who.workspaceID, "folderId", folderID, "format", "JSON_LINES"))
		if strings.Count(a.body, "\n") != 3 || strings.Contains(a.body, out.ID) {
			t.Errorf("the export: %s", a.body)
		}
		refuses(t, "a folder and a link", who.refusal(t, "exportClicks", "ExportClicksInput",
			map[string]any{"workspaceId": who.workspaceID, "folderId": folderID, "linkId": in.ID}), "INVALID_INPUT")
		refuses(t, "an unknown folder", who.refusal(t, "exportClicks", "ExportClicksInput",
			map[string]any{"workspaceId": who.workspaceID, "folderId": "\x00"}), "NOT_FOUND")
	})
}
