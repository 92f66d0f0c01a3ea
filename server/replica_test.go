package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestReplica_KeepsReadYourWrites at any node, at once, although lists are read from a standby that
// lags: other users do not see it yet.
func TestReplica_KeepsReadYourWrites(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Run("redis", func(t *testing.T) {
			t.Parallel()
			pair := dbtest.NewPair(t)
			pair.Delay(t, 700*time.Millisecond)
			b := production(t)
			b.env = append(b.env, "LINKFORGE_DATABASE_URL="+pair.URL, "LINKFORGE_DATABASE_READ_URL="+pair.ReadURL)
			nodes := startAll(t, b, 2)
			writer, reader := nodes[0].tenant(t, "writer"), nodes[1].tenant(t, "reader")
			writer.admit(t, reader, "VIEWER")
			reader.workspaceID = writer.workspaceID
			program, _ := writer.key(t, "LINKS_READ", "LINKS_WRITE")
			program.server = nodes[1]

			late, links := 0, 0
			polltest.Until(t, "another member misses new links, because the standby is read", func() bool {
				link := writer.shorten(t, fmt.Sprintf("https://example.com/%d", links)).Link
				if !slices.Contains(writer.onServer(nodes[links%2]).listed(t), link.ID) {
					t.Errorf("the creator of link %d does not see it", links)
				}
				if !slices.Contains(reader.listed(t), link.ID) {
					late++
				}
				links++
				return late == 5
			})
			all := writer.listed(t)
			polltest.Until(t, "another member sees all", func() bool { return slices.Equal(reader.listed(t), all) })
			polltest.Until(t, "an API key sees all on the standby", func() bool {
				return slices.Equal(tenant{client: program, workspaceID: writer.workspaceID}.listed(t), all)
			})

			// Permissions are never read from the standby.
			const sees = `query ($w: ID!) { workspace(by: {id: $w}) { id } }`
			in := map[string]any{"w": writer.workspaceID}
			writer.do(t, "removeMember", map[string]any{"workspaceId": writer.workspaceID, "userId": reader.id})
			same(t, "the workspace, for who was removed", reader.ask(t, sees, in).text("workspace"), "")
			for _, change := range []string{"deleteWorkspace", "restoreWorkspace"} {
				writer.do(t, change, map[string]any{"id": writer.workspaceID})
				var left tree
				_ = program.try(&left, sees, in) // it may be refused
				same(t, change, left.at("workspace") == nil, change == "deleteWorkspace")
			}

			pair.KillStandby()
			link := writer.shorten(t, "https://example.com/alone").Link
			for _, node := range nodes {
				if !slices.Contains(writer.onServer(node).listed(t), link.ID) {
					t.Error("without the standby, the database is not read")
				}
			}
		})
	})
}
