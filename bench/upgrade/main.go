// Command upgrade is the drill of an upgrade. A server of an early version creates links, clicks,
// an API key and a session, and stops. A server of this tree adopts the same database: no data may
// be lost. A database of an earlier migration is refused and unchanged. The drill covers both
// backends. It needs git, which has the early version:
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./upgrade -links 1000
//
// It exits with 1 when a promise is broken.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	linkCount = flag.Int("links", 10_000, "number of links")
	from      = flag.String("from", "35412b6f", "git revision of the last version before the base")
)

const (
	// followed is how many links have clicks: one more for each.
	followed = 20
	refusal  = "run linkforge migrate up of version 35412b6f"
)

func main() {
	rig.Main(func(r *rig.Run) {
		r.OpenServices()
		early := r.BuildEarlier(*from)
		for _, kind := range []string{"PostgreSQL", "SQLite"} {
			d := &drill{Run: r, kind: kind, early: early, data: filepath.Join(r.Folder, kind)}
			d.env, d.database = []string{"LINKFORGE_DATA_DIR=" + d.data}, filepath.Join(d.data, "linkforge.db")
			if kind == "PostgreSQL" {
				d.env, d.database = append(d.env, r.ServicesEnv()...), r.DatabaseURL
			}
			d.upgrade()
			d.refuse()
		}
	}, nil)
}

// drill is that of one backend.
type drill struct {
	*rig.Run
	kind, early, data string
	env               []string
	database          string // as rig.Open takes it
}

func (d *drill) promise(what string, kept bool, found string, args ...any) {
	d.Promise(d.kind+": "+what, kept, found, args...)
}

// kept are queries of rows that the adoption must not change.
var kept = []string{
	"SELECT id || ' ' || code || ' ' || original_url FROM links ORDER BY id",
	"SELECT subject_id || ' ' || clicks FROM click_totals ORDER BY subject_id",
	"SELECT link_id || ' ' || count(*) FROM clicks GROUP BY link_id ORDER BY link_id",
	"SELECT id || ' ' || scopes FROM api_keys ORDER BY id",
	"SELECT id || ' ' || account_id FROM sessions ORDER BY id",
	"SELECT id || ' ' || email FROM accounts ORDER BY id",
	"SELECT subject_id || ' ' || granted FROM grants ORDER BY subject_id",
}

func (d *drill) rows(queries ...string) (all []string) {
	for _, query := range queries {
		for _, row := range rig.Rows[struct{ Text string }](d.Run, d.database, query) {
			all = append(all, row.Text)
		}
	}
	return all
}

func (d *drill) upgrade() {
	server := d.Serve(d.kind+" early", d.early, d.settings()...)
	t := d.NewTenant(server.Address, "drill", &http.Transport{})
	links := t.Fill(*linkCount, 1000, 2, func(n int) map[string]any {
		return map[string]any{"url": rig.URLOf(n), "maxClicks": 1_000_000}
	})
	var key struct{ CreateAPIKey struct{ Secret string } }
	d.mutate(t, &key, "createApiKey", "CreateApiKeyInput", "secret",
		map[string]any{"workspaceId": t.Workspace, "name": "drill", "scopes": []string{"LINKS_READ"}})
	var session struct{ Login struct{ RefreshToken string } }
	d.mutate(t, &session, "login", "LoginInput", "refreshToken",
		map[string]any{"email": rig.TenantEmail, "password": rig.TenantPassword})
	clicks := int64(0)
	for n := range min(followed, len(links)) {
		for range n + 1 {
			rig.Must(d.follow(t, links[n]))
			clicks++
		}
	}
	const written = "SELECT count(*) FROM clicks"
	d.Await("all clicks are written", func() bool { return d.Number(d.database, written) == clicks })
	server.Stop()
	before := d.rows(kept...)

	server = d.Serve(d.kind+" late", d.Server, d.settings()...)
	after := d.rows(kept...)
	d.promise("links, clicks, keys and sessions are unchanged", slices.Equal(before, after), "%d rows before, %d after",
		len(before), len(after))
	recorded := d.rows("SELECT name FROM migrations")
	adopted := len(recorded) == 1 && strings.HasPrefix(recorded[0], "0001_base@")
	d.promise("the database is adopted", adopted, "%s", recorded)
	t = t.At(server.Address)
	wrong, again := 0, 0
	for n, link := range links {
		if to, err := d.follow(t, link); err != nil || to != rig.URLOf(n) {
			wrong++
		}
		if n < followed {
			if c := rig.Must(t.CreateLink(rig.URLOf(n))); c.Created || c.Link.Code != link.Link.Code {
				again++
			}
		}
	}
	d.promise("links redirect and keep their codes", wrong+again == 0, "%d of %d do not, %d created again", wrong,
		len(links), again)
	clicks += int64(len(links))
	const counted = "SELECT coalesce(sum(clicks), 0) FROM click_totals WHERE subject_id <> workspace_id"
	d.Await("further clicks are counted", func() bool { return d.Number(d.database, counted) == clicks })
	const query = "query ($w: ID!) { workspace(by: {id: $w}) { links(first: 1) { edges { node { code } } } } }"
	workspace := map[string]any{"w": t.Workspace}
	err := t.Do(new(any), query, workspace)
	d.promise("the session authenticates", err == nil, "%v", err)
	withKey := *t
	withKey.Token = key.CreateAPIKey.Secret
	err = withKey.Do(new(any), query, workspace)
	d.promise("the API key authenticates", err == nil, "%v", err)
	err = rig.Try(func() {
		d.mutate(t, new(any), "refreshSession", "RefreshSessionInput", "token",
			map[string]any{"refreshToken": session.Login.RefreshToken})
	})
	d.promise("the session of before is refreshed", err == nil, "%v", err)
	server.Stop()
	out, err := d.command(d.Server, "stats", "verify")
	d.promise("stats verify finds no difference", err == nil, "%.300s", strings.TrimSpace(out))
}

// refuse runs everything that opens a database on one without the last migration of the early
// version.
func (d *drill) refuse() {
	d.data += "-refused"
	d.env[0], d.database = "LINKFORGE_DATA_DIR="+d.data, filepath.Join(d.data, "linkforge.db")
	recorded := "SELECT name FROM migrations ORDER BY name"
	schema := []string{recorded, "SELECT coalesce(sql, name) FROM sqlite_master ORDER BY 1"}
	if d.kind == "PostgreSQL" {
		d.database = d.CreateDatabase()
		d.env = append(d.env, "LINKFORGE_DATABASE_URL="+d.database)
		schema[1] = "SELECT concat_ws(' ', table_name, column_name) FROM information_schema.columns ORDER BY 1"
	}
	server := d.Serve(d.kind+" early, refused", d.early, d.settings()...)
	rig.Must(d.NewTenant(server.Address, "drill", &http.Transport{}).CreateLink(rig.URLOf(1)))
	server.Stop()
	rig.Must(d.command(d.early, "migrate", "down"))
	before := d.rows(append(schema, kept[0])...)
	commands := [][]string{
		{"serve"}, {"migrate", "up"}, {"migrate", "status"}, {"migrate", "down"}, {"stats", "verify"}, {"jobs", "list"},
	}
	if d.kind == "SQLite" {
		backup := filepath.Join(d.Folder, "early.tar.gz")
		rig.Must(d.command(d.early, "backup", backup))
		late := filepath.Join(d.Folder, "late.tar.gz")
		commands = append(commands, []string{"restore", backup}, []string{"backup", late})
	}
	for _, command := range commands {
		if command[0] == "restore" {
			d.env[0] += "-restored"
		}
		out, err := d.command(d.Server, command...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		d.promise("an earlier schema is refused by "+strings.Join(command, " "),
			err != nil && strings.Contains(out, refusal), "%s", lines[len(lines)-1])
		d.env[0] = strings.TrimSuffix(d.env[0], "-restored")
	}
	after := d.rows(append(schema, kept[0])...)
	d.promise("it is unchanged", slices.Equal(before, after), "%d rows before, %d after", len(before), len(after))
	rig.Must(d.command(d.early, "migrate", "up"))
	out, err := d.command(d.Server, "migrate", "up")
	adopted := err == nil && strings.Contains(out, "applied 0001_base")
	d.promise("it is adopted after the early version", adopted, "%.300s", strings.TrimSpace(out))
}

// mutate runs a mutation that has to succeed.
func (d *drill) mutate(t *rig.Tenant, data any, name, input, result string, in map[string]any) {
	query := fmt.Sprintf("mutation ($in: %s!) { %s(input: $in) { %s errors { message } } }", input, name, result)
	rig.Check(t.Do(data, query, map[string]any{"in": in}))
}

// settings are those of a server: tokens are valid at one URL.
func (d *drill) settings() []string {
	return append(slices.Clone(d.env), "LINKFORGE_PUBLIC_URL="+rig.PublicURL, "LINKFORGE_DRAIN_DELAY=0s")
}

func (d *drill) command(program string, args ...string) (string, error) {
	env := append(slices.Clone(d.env), "LINKFORGE_JWT_SECRET="+rig.Secret, "LINKFORGE_CODE_SECRET="+rig.Secret,
		"LINKFORGE_LISTEN="+rig.FreeAddress())
	return d.Output(env, append([]string{program}, args...)...)
}

// follow returns the destination of a link.
func (d *drill) follow(t *rig.Tenant, link rig.Result) (to string, err error) {
	status, to, err := t.Follow(http.MethodGet, "/"+link.Link.Code)
	if err == nil && status != http.StatusFound {
		err = fmt.Errorf("status %d of %s", status, link.Link.Code)
	}
	return to, err
}
