// Command restore is the drill of a backup: it fills the embedded default and PostgreSQL with links
// and clicks, backs each up under load as docs/OPERATIONS.md says, restores it elsewhere, starts a
// server there, and compares it with what existed before. It reports how long each step took. It
// needs pg_dump and psql:
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./restore -links 10000 -clicks 30000
//
// It exits with 1 when a promise is broken.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	linkCount  = flag.Int("links", 100_000, "number of links before the load begins")
	clickCount = flag.Int("clicks", 300_000, "number of redirects before the backup")
)

const (
	// batch is the number of links of a call, callers how many call or follow at once.
	batch   = 1000
	callers = 4
	// followed is the number of links that are followed. The first limited of them have maxClicks,
	// which they do not reach before the backup.
	followed  = 4000
	limited   = 20
	maxClicks = 100_000
)

func main() {
	rig.Main(func(r *rig.Run) {
		if *linkCount < 2*followed || *clickCount < 1 {
			rig.Failf("at least %d links and a click are needed", 2*followed)
		}
		r.OpenServices()
		fmt.Println(rig.Machine())
		for _, b := range []backend{embedded(r), postgres(r)} {
			(&drill{Run: r, backend: b, asked: make([]atomic.Int64, followed),
				responded: make([]atomic.Int64, followed), given: map[string]bool{}}).run()
		}
	}, nil)
}

// backend is where a server stores data, and how that is backed up and restored.
type backend struct {
	name string
	// env and restored are the settings of the server before and after the restore, database and
	// copied its databases, as rig.Open takes them.
	env, restored          []string
	database, copied, file string
	// lagging means that the backup has only the clicks that the database has, without those in
	// logs.
	lagging         bool
	backUp, restore func(d *drill)
}

func embedded(r *rig.Run) backend {
	from, to := filepath.Join(r.Folder, "embedded"), filepath.Join(r.Folder, "embedded-restored")
	return backend{
		name: "embedded", env: []string{"LINKFORGE_DATA_DIR=" + from}, restored: []string{"LINKFORGE_DATA_DIR=" + to},
		database: filepath.Join(from, "linkforge.db"), copied: filepath.Join(to, "linkforge.db"),
		file: filepath.Join(r.Folder, "backup.tar.gz"),
		backUp: func(d *drill) {
			d.step("linkforge backup", func() { rig.Must(r.Linkforge(d.env, "backup", d.file)) })
		},
		restore: func(d *drill) {
			d.step("linkforge restore", func() { rig.Must(r.Linkforge(d.restored, "restore", d.file)) })
		},
	}
}

func postgres(r *rig.Run) backend {
	another := r.CreateDatabase()
	env := func(databaseURL, data string) []string {
		return []string{"LINKFORGE_DATABASE_URL=" + databaseURL, "LINKFORGE_REDIS_URL=" + r.RedisURL,
			"LINKFORGE_DATA_DIR=" + filepath.Join(r.Folder, data), "LINKFORGE_JWT_SECRET=" + rig.Secret,
			"LINKFORGE_CODE_SECRET=" + rig.Secret}
	}
	return backend{
		name: "PostgreSQL", env: env(r.DatabaseURL, "node"), restored: env(another, "node-restored"),
		database: r.DatabaseURL, copied: another, file: filepath.Join(r.Folder, "linkforge.sql"), lagging: true,
		backUp: func(d *drill) {
			d.step("pg_dump", func() {
				d.quiet(rig.LibpqEnv(r.DatabaseURL), "pg_dump", "--role=linkforge_system", "--enable-row-security",
					"--exclude-table-data=visitor*", "--exclude-table-data=changes*",
					"--exclude-table-data=click_batches*",
					"--file="+d.file)
			})
		},
		restore: func(d *drill) {
			d.step("psql", func() { d.quiet(rig.LibpqEnv(another), "psql", "-q", "-o", "/dev/null", "-f", d.file) })
			d.step("linkforge after-restore --grants", func() {
				rig.Must(r.Linkforge(d.restored, "after-restore", "--grants"))
			})
			rig.Check(r.Redis.FlushDB(r).Err())
		},
	}
}

// quiet runs a command, and fails when it prints anything: psql continues after errors.
func (d *drill) quiet(env []string, command ...string) {
	if out := rig.Must(d.Output(env, command...)); out != "" {
		rig.Failf("%s: %.2000s", command[0], out)
	}
}

// drill is that of one backend.
type drill struct {
	*rig.Run
	backend
	server *rig.Process
	tenant *rig.Tenant
	links  []rig.Result // deterministic ones, and every tenth of the strategy COUNTER
	steps  [][]string
	// asked and responded count redirects by link, before the restore.
	asked, responded []atomic.Int64

	mu      sync.Mutex
	given   map[string]bool // all codes that any response has had
	created int             // number of links that the load has created
}

func (d *drill) step(name string, do func()) {
	took := d.Timed(d.name+": "+name, do)
	d.steps = append(d.steps, []string{name, fmt.Sprintf("%.1f", took.Seconds())})
}

// run fills a server, backs it up under load, restores it elsewhere, and compares.
func (d *drill) run() {
	d.start("before", d.env)
	d.tenant = d.NewTenant(d.server.Address, "drill", &http.Transport{})
	d.step("creating the links", func() {
		d.links = d.tenant.Fill(*linkCount, batch, callers, func(number int) map[string]any {
			one := map[string]any{"url": rig.URLOf(number)}
			if number < limited {
				one["maxClicks"] = maxClicks
			} else if isCounter(number) {
				one["strategy"] = "COUNTER"
			}
			return one
		})
		for _, l := range d.links {
			d.give(l.Link.Code)
		}
	})
	d.step("following them", func() {
		rig.InBatches(*clickCount, 100, 4*callers, func(from, to int) {
			for range to - from {
				d.visit(rand.IntN(followed))
			}
		})
	})
	d.step("until the database has the clicks", func() {
		want := total(loads(d.responded))
		d.Await("the clicks are ingested", func() bool { return total(d.clicksIn(d.database)) == want })
	})
	least, most, size := d.backUpUnderLoad()
	d.server.Stop()
	d.restore(d)
	d.step("start, until it is ready", func() { d.start("restored", d.restored) })
	d.tenant = d.tenant.At(d.server.Address)
	fmt.Printf("\n%s: %d links and %d clicks, a backup of %.1f MB.\n", d.name, len(d.links), total(most), size)
	rig.Table(append([][]string{{"step", "seconds"}}, d.steps...)...)
	d.check(least, most)
	d.server.Stop()
	rig.ReportWarnings(d.server)
}

// start starts a server whose quotas are those of the workspace.
func (d *drill) start(name string, env []string) {
	d.server = d.Serve(name+"-"+d.name, d.Server, append([]string{"LINKFORGE_PUBLIC_URL=" + rig.PublicURL,
		"LINKFORGE_ENV=development", "LINKFORGE_LINK_QUOTA=1000000000", "LINKFORGE_HIT_QUOTA=1000000000"}, env...)...)
}

// isCounter reports which links are of the strategy COUNTER.
func isCounter(number int) bool { return number%10 == 9 }

// give notes a code, and reports whether it was given before.
func (d *drill) give(code string) (again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	again = d.given[code]
	d.given[code] = true
	return again
}

// visit follows a link, which must redirect.
func (d *drill) visit(number int) {
	d.asked[number].Add(1)
	if status := d.follow(number); status != http.StatusFound {
		rig.Failf("link %d: status %d", number, status)
	}
	d.responded[number].Add(1)
}

func (d *drill) follow(number int) int {
	status, _, err := d.tenant.Follow(http.MethodGet, "/"+d.links[number].Link.Code)
	rig.Check(err)
	return status
}

// backUpUnderLoad backs up while links are followed and created, and for a while after. It returns
// the clicks that each link has at least and at most in the backup, and its size in MB.
func (d *drill) backUpUnderLoad() (least, most []int64, size float64) {
	load, stop := context.WithCancel(d)
	repeat := func(do func()) func() {
		return func() {
			for load.Err() == nil {
				do()
				time.Sleep(time.Millisecond)
			}
		}
	}
	visit := repeat(func() { d.visit(rand.IntN(followed)) })
	create := repeat(func() {
		if _, again := d.createNew(5, "COUNTER"); again > 0 {
			rig.Failf("a code was given twice before the restore")
		}
	})
	rig.Parallel(visit, visit, visit, visit, create, create, func() {
		defer stop()
		if least = loads(d.responded); d.lagging {
			least = d.clicksIn(d.database)
		}
		d.backUp(d)
		most = loads(d.asked)
		size = float64(rig.Must(os.Stat(d.file)).Size()) / 1e6
		d.Pause(2 * time.Second) // codes from after the backup must not be given again
	})
	return least, most, size
}

// createNew creates links with new URLs, and returns how many of their codes were given before.
func (d *drill) createNew(n int, strategy string) (created []rig.Result, again int) {
	d.mu.Lock()
	from := 1_000_000_000 + d.created
	d.created += n
	d.mu.Unlock()
	created = d.tenant.Fill(n, n, 1, func(i int) map[string]any {
		return map[string]any{"url": rig.URLOf(from + i), "strategy": strategy}
	})
	for _, c := range created {
		if d.give(c.Link.Code) {
			again++
		}
	}
	return created, again
}

// clicksIn returns the clicks of the followed links in a database, counted one by one.
func (d *drill) clicksIn(database string) []int64 {
	byID := map[string]int64{}
	for _, r := range rig.Rows[struct {
		LinkID string
		Clicks int64
	}](d.Run, database, "SELECT link_id, count(*) AS clicks FROM clicks GROUP BY link_id") {
		byID[r.LinkID] = r.Clicks
	}
	clicks := make([]int64, followed)
	for number := range clicks {
		clicks[number] = byID[d.links[number].Link.ID]
	}
	return clicks
}

func loads(counts []atomic.Int64) []int64 {
	all := make([]int64, len(counts))
	for i := range counts {
		all[i] = counts[i].Load()
	}
	return all
}

func total(counts []int64) (all int64) {
	for _, n := range counts {
		all += n
	}
	return all
}

// exec runs a command of the program on the restored data.
func (d *drill) exec(args ...string) error {
	out, err := d.Linkforge(append([]string{"LINKFORGE_CLICK_MONTHS=1"}, d.restored...), args...)
	if err != nil {
		d.Say("%s", strings.TrimSpace(out))
	}
	return err
}

const (
	// sample is how many links are queried one by one.
	sample = 2000
	// fresh is how many links are created of each strategy.
	fresh = 500
	// spare is the remaining number of redirects of a quota before it is used up.
	spare = 7
)

// check compares the restored server with what existed before.
func (d *drill) check(least, most []int64) {
	clicks := d.clicksIn(d.copied)
	d.checkLinks()
	d.checkKnownURLs()
	wrong := 0
	for number, n := range clicks {
		if n < least[number] || n > most[number] {
			wrong++
		}
	}
	d.Promise("every click of the backup is counted once", wrong == 0,
		"%d clicks, from %d to %d may be; %d of %d links "+
			"differ", total(clicks), total(least), total(most), wrong, len(clicks))
	err := d.exec("stats", "verify")
	d.Promise("stats verify finds no difference", err == nil, "%.300v", err)
	d.checkUsage(clicks)
	d.checkMaxClicks(clicks)
	d.checkHitQuota(clicks)
	for _, strategy := range []string{"COUNTER", "RANDOM", "DETERMINISTIC"} {
		created, again := d.createNew(fresh, strategy)
		d.Promise(strategy+" gives new codes", again == 0, "%d created, %d with a code of before", len(created), again)
	}
	d.checkLinkQuota()
}

// checkLinks compares the restored links with the created ones.
func (d *drill) checkLinks() {
	restored := map[rig.Link]bool{}
	for _, r := range rig.Rows[struct{ ID, Code, URL string }](d.Run, d.copied,
		"SELECT id, code, original_url FROM links") {
		restored[rig.Link{ID: r.ID, Code: r.Code, OriginalURL: r.URL}] = true
	}
	missing := 0
	for _, l := range d.links {
		if l.Link.ShortURL = ""; !restored[l.Link] {
			missing++
		}
	}
	d.Promise("every link exists, with its code", missing == 0, "%d links of before, %d missing; %d in all",
		len(d.links), missing, len(restored))
}

// checkKnownURLs creates links of URLs that have one.
func (d *drill) checkKnownURLs() {
	wrong := 0
	var want []rig.Link
	for len(want) < sample {
		number := limited + rand.IntN(len(d.links)-limited)
		if !isCounter(number) { // each call creates another one of those
			want = append(want, d.links[number].Link)
		}
	}
	for i, c := range d.tenant.Fill(sample, batch, 1, func(i int) map[string]any {
		return map[string]any{"url": want[i].OriginalURL}
	}) {
		if c.Created || c.Link != want[i] {
			wrong++
		}
	}
	d.Promise("a URL has the link and the code that it had", wrong == 0, "%d created again, %d with another", sample,
		wrong)
}

// checkUsage checks the used monthly hits of links.
func (d *drill) checkUsage(clicks []int64) {
	wrong := 0
	for from := 0; from < sample; from += 100 {
		var ids []string
		for _, l := range d.links[from : from+100] {
			ids = append(ids, l.Link.ID)
		}
		var got struct {
			Nodes []struct {
				ClickCount int64
				HitQuota   struct{ Used int64 }
			}
		}
		rig.Check(d.tenant.Do(&got, `query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Link { clickCount
			hitQuota { used } } } }`, map[string]any{"ids": ids}))
		for i, n := range got.Nodes {
			if n.ClickCount != clicks[from+i] || n.HitQuota.Used != clicks[from+i] {
				wrong++
			}
		}
	}
	d.Promise("the month's hits are counted from the clicks", wrong == 0, "%d links queried, %d wrong", sample, wrong)
}

// checkMaxClicks uses up limited links: before and after the restore they redirect as often as they
// may. Their limit is set close to their clicks, to save time.
func (d *drill) checkMaxClicks(clicks []int64) {
	wrong := 0
	for number := range limited {
		id := d.links[number].Link.ID
		granted := d.Number(d.copied, "SELECT granted FROM grants WHERE subject_id = $1", id)
		rig.Check(
			d.tenant.Do(&struct{}{}, `mutation ($id: ID!, $n: Int64!) { updateLink(input: {id: $id, maxClicks: $n}) {
			errors { message } } }`, map[string]any{"id": id, "n": clicks[number] + spare}))
		if redirects, last := d.useUp(number); granted != clicks[number] || redirects != spare ||
			last != http.StatusGone {
			wrong++
		}
	}
	d.Promise("maxClicks is what the clicks have left of it, exactly", wrong == 0, "%d links with %d left, %d wrong",
		limited, spare, wrong)
}

// checkHitQuota sets the workspace's quota slightly above the used hits of a link, and uses it up.
func (d *drill) checkHitQuota(clicks []int64) {
	const number = limited
	d.limit("--hits", "hitQuota", clicks[number]+spare)
	redirects, last := d.useUp(number)
	d.Promise("a link redirects as often as its month allows", redirects == spare && last == http.StatusTooManyRequests,
		"%d times of %d, then %d", redirects, spare, last)
	rig.Check(d.exec("workspaces", "limits", "drill", "--hits", "default"))
}

// useUp follows a link until it does not redirect.
func (d *drill) useUp(number int) (redirects, last int) {
	for ; redirects < 10*spare; redirects++ {
		if last = d.follow(number); last != http.StatusFound {
			break
		}
	}
	return redirects, last
}

// limit sets a quota of the workspace, and waits until the server has read it.
func (d *drill) limit(option, field string, n int64) {
	rig.Check(d.exec("workspaces", "limits", "drill", option, strconv.FormatInt(n, 10)))
	d.Await("the quota is read", func() bool {
		var got struct{ Workspace map[string]int64 }
		rig.Check(d.tenant.Do(&got, fmt.Sprintf("query ($w: ID!) { workspace(by: {id: $w}) { %s } }", field),
			map[string]any{"w": d.tenant.Workspace}))
		return got.Workspace[field] == n
	})
	d.Pause(2 * time.Second) // redirects read it within a second
}

// checkLinkQuota sets the workspace's link quota slightly above its usage, and uses it up.
func (d *drill) checkLinkQuota() {
	d.limit("--links", "linkQuota", d.Number(d.copied, "SELECT count(*) FROM links")+spare)
	created := 0
	for ; created < 3*spare; created++ {
		if rig.Try(func() { d.createNew(1, "DETERMINISTIC") }) != nil {
			break
		}
	}
	d.Promise("the month's new links are those that exist", created == spare, "%d created, %d were left", created,
		spare)
}
