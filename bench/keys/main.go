// Command keys measures lists of links that API keys request: by a key without folders against the
// same key of an earlier version, and by keys with folders against the one without. All are
// measured in one run, in pairs, because machines differ and are shared: quote the ratios.
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./keys -from REVISION -links 100000
//
// It exits with 1 after a wrong response.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	from        = flag.String("from", "", "git revision of the earlier version")
	links       = flag.Int("links", 100_000, "number of links of the workspace, a tenth of them in each of ten folders")
	rounds      = flag.Int("rounds", 5, "number of bursts of each target")
	burst       = flag.Duration("burst", 3*time.Second, "duration of a burst")
	connections = flag.Int("connections", 8, "number of connections")
)

const (
	folders = 10
	// seasons is the number of tags, each of as many links.
	seasons = 97
	warmUp  = time.Second
)

const listDocument = `query List($workspace: ID!, $filter: LinkFilter) {
  workspace(by: {id: $workspace}) {
    links(first: 20, filter: $filter) { edges { node { code shortUrl originalUrl title tags status } }
      pageInfo { hasNextPage } }
  }
}`

func main() { rig.Main(run, nil) }

// version is a server of one version, with its links.
type version struct {
	*rig.Run
	rig.Target
	tenant  *rig.Tenant
	address string
	// keys are the secrets of API keys, by the number of their folders.
	keys map[int]string
}

func run(r *rig.Run) {
	earlier := r.BuildEarlier(*from)
	before, after := start(r, "before", earlier, 0), start(r, "after", r.Server, 0, 1, 3)
	var pairs []*rig.Pair
	for _, list := range []struct {
		name   string
		filter map[string]any
	}{{"all links", nil}, {"links with a tag", map[string]any{"tags": []string{"season-7"}}}} {
		pairs = append(pairs,
			&rig.Pair{
				Name:     list.name + ": a key without folders, beside the earlier version",
				Baseline: func() rig.Figures { return before.list(0, list.filter) },
				Target:   func() rig.Figures { return after.list(0, list.filter) },
			})
		for _, n := range []int{1, 3} {
			pairs = append(pairs, &rig.Pair{
				Name:     fmt.Sprintf("%s: a key with %d of %d folders, beside one without", list.name, n, folders),
				Baseline: func() rig.Figures { return after.list(0, list.filter) },
				Target:   func() rig.Figures { return after.list(n, list.filter) },
			})
		}
	}
	r.MeasurePairs(*rounds, pairs)
	fmt.Printf("%d links, %d rounds, %d connections, %s. Medians, with the minimum and the maximum.\n", *links, *rounds,
		*connections,
		rig.Machine())
	rig.TableOfPairs(pairs)
	r.ReportMachine()
}

// start starts a server of a version with its own database, and creates its links, and keys with
// numbers of folders.
func start(r *rig.Run, name, binary string, keys ...int) *version {
	v := &version{Run: r, keys: map[int]string{}}
	v.Name = name
	r.OpenServices()
	p := r.Serve(name, binary,
		append(r.ServicesEnv(), "LINKFORGE_REQUEST_RATE="+rig.Unlimited, "LINKFORGE_COST_RATE="+rig.Unlimited)...)
	v.address, v.Own, v.Beside = p.Address, []int{p.PID}, slices.Clone(r.ServicePIDs)
	v.tenant = r.NewTenant(v.address, "bench", &http.Transport{})
	ids := make([]string, folders)
	if len(keys) > 1 {
		for i := range ids {
			var created struct {
				CreateFolder struct{ Folder struct{ ID string } }
			}
			rig.Check(
				v.tenant.Do(&created, `mutation ($in: CreateFolderInput!) { createFolder(input: $in) { folder { id }
				errors { code message } } }`, map[string]any{
					"in": map[string]any{"workspaceId": v.tenant.Workspace, "name": fmt.Sprint(i)}}))
			ids[i] = created.CreateFolder.Folder.ID
		}
	}
	r.Timed("creating the links of "+name, func() {
		v.tenant.Fill(*links, 1000, 2, func(i int) map[string]any {
			in := map[string]any{
				"url": rig.URLOf(i), "strategy": "RANDOM", "title": fmt.Sprint("link ", i),
				"tags": []string{fmt.Sprint("season-", i%seasons)},
			}
			if folderID := ids[i%folders]; folderID != "" {
				in["folderId"] = folderID
			}
			return in
		})
	})
	r.Timed("indexing their texts", func() { // takes longer than their creation
		for r.Number(r.DatabaseURL, "SELECT count(*) FROM link_text_queue") > 0 {
			r.Pause(time.Second)
		}
	})
	for _, n := range keys {
		in := map[string]any{"workspaceId": v.tenant.Workspace, "name": fmt.Sprint(n), "scopes": []string{"LINKS_READ"}}
		if n > 0 {
			in["folderIds"] = ids[:n]
		}
		var created struct{ CreateAPIKey struct{ Secret string } }
		rig.Check(v.tenant.Do(&created,
			`mutation ($in: CreateApiKeyInput!) { createApiKey(input: $in) { secret errors { code message } } }`,
			map[string]any{"in": in}))
		v.keys[n] = created.CreateAPIKey.Secret
	}
	r.Exec(r.DatabaseURL, "VACUUM ANALYZE")
	return v
}

// list measures a list of links by the key with a number of folders.
func (v *version) list(folders int, filter map[string]any) rig.Figures {
	body := string(rig.Must(json.Marshal(map[string]any{
		"query": listDocument, "variables": map[string]any{"workspace": v.tenant.Workspace, "filter": filter},
	})))
	of := rig.Load{
		Address: v.address, Token: v.keys[folders], N: 16, Connections: *connections, Burst: warmUp,
		Requests: func(int) string { return body }, Status: http.StatusOK, Expected: `"edges":[{"node":{"code":"`,
	}
	v.Drive(v.Name, of)
	of.Burst = *burst
	began := rig.Used(v.Target)
	o := v.Drive(v.Name, of)
	used := rig.Used(v.Target).Since(began) // lists defer no work
	if o.Wrong > 0 {
		v.Wrongf("%s", o.Sample)
	}
	return rig.FiguresOf(o, used)
}
