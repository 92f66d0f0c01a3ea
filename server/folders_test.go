package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestFolders_SelectLinksAndClicks: lists, stats and exports of a folder have the links that are in it now.
func TestFolders_SelectLinksAndClicks(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "folders")
		var made struct {
			CreateFolder struct {
				Folder struct{ ID string }
			}
		}
		who.must(t, &made,
			`mutation ($w: ID!) { createFolder(input: {workspaceId: $w, name: "Campaigns"}) { folder { id } } }`,
			map[string]any{"w": who.workspaceID})
		folderID := made.CreateFolder.Folder.ID
		in := who.shorten(t, "https://example.com/in", "folderId", folderID, "tags", []string{"spring"}).Link
		untagged := who.shorten(t, "https://example.com/untagged", "folderId", folderID).Link
		out := who.shorten(t, "https://example.com/out", "tags", []string{"spring"}).Link
		for _, l := range []linkView{in, in, untagged, out} {
			s.follow(t, l.path(s))
		}
		type nodes struct{ Nodes []struct{ ID string } }
		type clicks struct{ Clicks int64 }
		var got struct {
			Workspace struct {
				In, Out nodes
				Folders struct {
					Nodes []struct {
						Name      string
						LinkCount int64
					}
				}
				OfFolder, OfBoth, OfTag, OfUnknown clicks
			}
			Node struct{ Folder struct{ Name string } }
		}
		polltest.Until(t, "the clicks are counted", func() bool {
			who.must(t, &got, `query ($w: ID!, $f: ID!, $l: ID!) { workspace(by: {id: $w}) {
				in: links(first: 9, filter: {folderIds: [$f]}) { nodes { id } }
				out: links(first: 9, filter: {inFolder: false}) { nodes { id } }
				folders { nodes { name linkCount } }
				ofFolder: stats(folderId: $f) { clicks } ofBoth: stats(folderId: $f, tag: "spring") { clicks }
				ofTag: stats(tag: "spring") { clicks } ofUnknown: stats(folderId: "nothing") { clicks } }
				node(id: $l) { ... on Link { folder { name } } } }`,
				map[string]any{"w": who.workspaceID, "f": folderID, "l": in.ID})
			w := got.Workspace
			return w.OfFolder.Clicks == 3 && w.OfBoth.Clicks == 2 && w.OfTag.Clicks == 3
		})
		w := got.Workspace
		ids := func(n nodes) (ids []string) {
			for _, l := range n.Nodes {
				ids = append(ids, l.ID)
			}
			return ids
		}
		if !slices.Equal(ids(w.In), []string{untagged.ID, in.ID}) || !slices.Equal(ids(w.Out), []string{out.ID}) ||
			w.OfUnknown.Clicks != 0 {
			t.Errorf("%+v", w)
		}
		if f := w.Folders.Nodes; len(f) != 1 || f[0].Name != "Campaigns" || f[0].LinkCount != 2 ||
			got.Node.Folder.Name != "Campaigns" {
			t.Errorf("%+v", got)
		}
		var export struct {
			ExportClicks struct{ Errors []userError }
		}
		a := s.expect(t, http.StatusOK, "GET",
			who.exportURL(t, who.workspaceID, "folderId", folderID, "format", "JSON_LINES"))
		if strings.Count(a.body, "\n") != 3 || strings.Contains(a.body, out.ID) {
			t.Errorf("the export: %s", a.body)
		}
		who.must(t, &export,
			`mutation ($w: ID!, $f: ID!, $l: ID!) { exportClicks(input: {workspaceId: $w, folderId: $f, linkId: $l}) {
			errors { code message field } } }`, map[string]any{"w": who.workspaceID, "f": folderID, "l": in.ID})
		if errs := export.ExportClicks.Errors; len(errs) != 1 || errs[0].Code != "INVALID_INPUT" {
			t.Errorf("a folder and a link: %+v", errs)
		}
		who.must(t, &export, `mutation ($w: ID!) { exportClicks(input: {workspaceId: $w, folderId: "\u0000"}) {
			errors { code message field } } }`, map[string]any{"w": who.workspaceID})
		if errs := export.ExportClicks.Errors; len(errs) != 1 || errs[0].Code != "NOT_FOUND" {
			t.Errorf("an unknown folder: %+v", errs)
		}
	})
}
