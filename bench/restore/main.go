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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig2"
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
	// lagging means that the backup has only the clicks that the database has, without those in logs.
	lagging         bool
	backUp, restore func(d *drill)
}

func embedded(r *rig.Run) backend {
	from, to := filepath.Join(r.Folder, "embedded"), filepath.Join(r.Folder, "embedded-restored")
	return backend{
		name: "embedded", env: []string{"LINKFORGE_DATA_DIR=" + from}, restored: []string{"LINKFORGE_DATA_DIR=" + to},
		database: filepath.Join(from, "linkforge.db"), copied: filepath.Join(to, "linkforge.db"),
		file:   filepath.Join(r.Folder, "backup.tar.gz"),
		backUp: func(d *drill) { d.step("linkforge backup", func() { rig.Must(r.Linkforge(d.env, "backup", d.file)) }) },
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
					"--exclude-table-data=visitor*", "--exclude-table-data=changes*", "--exclude-table-data=click_batches*",
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

// link is one that was created.
type link struct{ URL, ID, Code string }

// drill is that of one backend.
type drill struct {
	*rig.Run
	backend
	server *rig.Process
	tenant *rig.Tenant
	links  []link // deterministic ones, and every tenth of the strategy COUNTER
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
		d.links = make([]link, *linkCount)
		rig.InBatches(*linkCount, batch, callers, d.createLinks)
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
		d.Eventually(want, func() int64 { return total(d.clicksIn(d.database)) })
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

func (d *drill) createLinks(from, to int) {
	var some []any
	for number := from; number < to; number++ {
		one := map[string]any{"url": urlOf(number)}
		if number < limited {
			one["maxClicks"] = maxClicks
		} else if isCounter(number) {
			one["strategy"] = "COUNTER"
		}
		some = append(some, one)
	}
	for i, c := range rig.Must(d.tenant.CreateLinks(some)) {
		d.links[from+i] = link{urlOf(from + i), c.Link.ID, c.Link.Code}
		d.give(c.Link.Code)
	}
}

// isCounter reports which links are of the strategy COUNTER.
func isCounter(number int) bool { return number%10 == 9 }

// urlOf returns the destination of a link, in canonical form.
func urlOf(number int) string {
	return fmt.Sprintf("https://www.example.com/articles/%d/a-title-of-some-words?n=%d", number%997, number)
}

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
	status, _, err := d.tenant.Follow(http.MethodGet, "/"+d.links[number].Code)
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
func (d *drill) createNew(n int, strategy string) (created []rig.Link, again int) {
	d.mu.Lock()
	from := 1_000_000_000 + d.created
	d.created += n
	d.mu.Unlock()
	var some []any
	for number := from; number < from+n; number++ {
		some = append(some, map[string]any{"url": urlOf(number), "strategy": strategy})
	}
	created = rig.Must(d.tenant.CreateLinks(some))
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
		clicks[number] = byID[d.links[number].ID]
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
