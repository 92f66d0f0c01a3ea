// Command upgrade is the drill of an upgrade: a server of an early version works on a schema of its
// time with a million links under load, a server of this tree starts beside it and migrates, the
// load moves over, and the early one stops. No request may fail meanwhile, every URL keeps its code,
// and every redirect is counted once. It needs git, which has the early version:
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./upgrade -links 100000
//
// The load is paced, to find requests that wait for a migration, and not the limits of the machine.
// It exits with 1 when a promise is broken.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig2"
)

var (
	linkCount = flag.Int("links", 1_000_000, "number of links before the load begins")
	from      = flag.String("from", "", "git revision of the early version; the oldest that can be upgraded when empty")
	phaseTime = flag.Duration("phase", 15*time.Second, "duration of each phase of the load but the migration's")
	dumpTime  = flag.Duration("dump", 4*time.Second, "duration of a dump while the late server migrates; 0 for none")
)

const (
	batch      = 1000         // number of links of a call
	firstStep  = "0007_stats" // of the oldest schema that can be upgraded under load: see docs/OPERATIONS.md
	migrations = "migrations/postgres"
)

func main() {
	rig.Main(func(r *rig.Run) {
		d := &drill{Run: r, root: rig.Root(r)}
		d.findRevision()
		r.OpenServices()
		d.run()
	}, nil)
}

// drill is a run.
type drill struct {
	*rig.Run
	root string // the folder of the server's module
	// hash names the early version, earlySteps and steps are the migrations of both versions.
	hash              string
	earlySteps, steps []string
	early, late       *rig.Process
	tenant            *rig.Tenant
	codes             []string // of the links, by number
	load              *load
}

// git runs a command that only reads.
func (d *drill) git(args ...string) (string, error) {
	return d.Output(nil, append([]string{"git", "-C", d.root}, args...)...)
}

func stepsOf(files []string) (steps []string) {
	for _, file := range files {
		if step, up := strings.CutSuffix(filepath.Base(file), ".up.sql"); up {
			steps = append(steps, step)
		}
	}
	return steps
}

// findRevision selects the requested version, or the oldest whose schema has the first step and
// whose migrations have not changed since.
func (d *drill) findRevision() {
	d.steps = stepsOf(rig.Must(filepath.Glob(filepath.Join(d.root, migrations, "*.up.sql"))))
	candidates := []string{*from}
	if *from == "" {
		candidates = strings.Fields(rig.Must(d.git("log", "--reverse", "--format=%H", "--", "migrations")))
	}
	for _, hash := range candidates {
		files := strings.Fields(rig.Must(d.git("ls-tree", "--name-only", hash, migrations+"/")))
		_, changed := d.git("diff", "--quiet", "--no-renames", "--diff-filter=MD", hash, "--", "migrations/*/*.up.sql")
		d.hash, d.earlySteps = hash, stepsOf(files)
		if changed == nil && (*from != "" || slices.Contains(d.earlySteps, firstStep)) {
			return
		}
	}
	rig.Failf("no version %s has the step %s and migrations that this tree's begin with", *from, firstStep)
}

// run fills the early server, upgrades it under load, and checks.
func (d *drill) run() {
	source, binary := filepath.Join(d.Folder, "early"), filepath.Join(d.Folder, "linkforge-early")
	rig.Check(os.Mkdir(source, 0o700))
	rig.Must(d.Output(nil, "sh", "-c", "git -C "+d.root+" archive "+d.hash+" | tar -x -C "+source))
	d.Build(source, binary)
	d.early = d.start("early", binary)
	d.tenant = d.NewTenant(d.early.Address, "drill", &http.Transport{})
	filled := d.Timed("creating the links", func() {
		d.codes = make([]string, *linkCount)
		rig.InBatches(*linkCount, batch, 4, d.createLinks)
	})
	d.Exec(d.DatabaseURL, "VACUUM ANALYZE")
	d.load = newLoad(d)
	stop := d.load.start()
	defer stop()
	d.during(before)
	var taken []taken
	d.load.enter(migrating)
	rig.Parallel(d.dump, func() { taken = d.migrate() })
	d.load.aim(d.early.Address, d.late.Address)
	d.during(beside)
	d.load.aim(d.late.Address)
	d.load.drain(d.early.Address) // as a proxy does before the server is stopped
	d.early.Stop()
	d.during(after)
	stop()

	fmt.Printf("From %.12s, schema %s, with %d links, created in %.0f s. The database was dumped for %s meanwhile. %s.\n",
		d.hash, d.earlySteps[len(d.earlySteps)-1], *linkCount, filled.Seconds(), *dumpTime, rig.Machine())
	rows := [][]string{{"step", "took, ms", "longest wait of a request for a lock, ms"}}
	for _, t := range taken {
		rows = append(rows, []string{t.step, fmt.Sprintf("%.0f", rig.Millis(t.took)), fmt.Sprintf("%.0f", t.waited*1000)})
	}
	rig.Table(rows...)
	d.load.report()
	rig.ReportWarnings(d.early, d.late)
	d.check(taken)
}

// start starts a server. Both share a data folder, so that the late one adopts what the early one
// may leave in its log.
func (d *drill) start(name, binary string) *rig.Process {
	return d.Serve(name, binary, append(d.ServicesEnv(), "LINKFORGE_PUBLIC_URL="+rig.PublicURL,
		"LINKFORGE_DATA_DIR="+filepath.Join(d.Folder, "data"), "LINKFORGE_DRAIN_DELAY=0s")...)
}

func (d *drill) createLinks(from, to int) {
	var some []any
	for number := from; number < to; number++ {
		some = append(some, map[string]any{"url": urlOf(number)})
	}
	for i, c := range rig.Must(d.tenant.CreateLinks(some)) {
		d.codes[from+i] = c.Link.Code
	}
}

// urlOf returns the destination of a link, in canonical form.
func urlOf(number int) string {
	return fmt.Sprintf("https://www.example.com/articles/%d/a-title-of-some-words?n=%d", number%997, number)
}

func (d *drill) during(p phase) {
	d.Say("%s", p)
	d.load.enter(p)
	d.Pause(*phaseTime)
}

// dump holds the locks of a pg_dump, on all tables, for a time.
func (d *drill) dump() {
	if *dumpTime > 0 {
		d.Exec(d.DatabaseURL, `DO $$ BEGIN EXECUTE 'LOCK TABLE ' || (SELECT string_agg(quote_ident(tablename), ', ')
			FROM pg_tables WHERE schemaname = 'public') || ' IN ACCESS SHARE MODE';
			PERFORM pg_sleep(`+fmt.Sprint(dumpTime.Seconds())+`); END $$`)
	}
}

// taken is a migration that was taken, and the longest time in seconds that a statement of a server
// waited for a lock meanwhile.
type taken struct {
	step   string
	took   time.Duration
	waited float64
}

// migrationLock is the key of the advisory lock of migrations: see internal/db/migrate.go.
const migrationLock = 0x6c696e6b666f7267

// migrate starts the late server, which migrates before it listens, and polls the database meanwhile.
func (d *drill) migrate() (all []taken) {
	d.Say("%s", migrating)
	d.Pause(200 * time.Millisecond) // until the dump has its locks
	in := rig.Open(d.DatabaseURL, false)
	defer in.Close()
	read := func() (steps int, running bool, waited float64) {
		rig.Check(in.QueryRowContext(d, `SELECT (SELECT count(*) FROM migrations),
			EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
				AND ((classid::BIGINT << 32) | objid::BIGINT) = $1),
			(SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0) FROM pg_stat_activity
				WHERE datname = current_database() AND state = 'active' AND wait_event_type = 'Lock'
				AND query NOT LIKE '%pg_advisory%')`, int64(migrationLock)).Scan(&steps, &running, &waited))
		return steps, running, waited
	}
	last, _, _ := read()
	done := make(chan struct{})
	rig.Parallel(func() {
		defer close(done)
		d.late = d.start("late", d.Server)
	}, func() {
		var began time.Time
		longest := 0.0
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true
			case <-time.After(5 * time.Millisecond):
			}
			steps, running, waited := read()
			if began.IsZero() && (running || steps > last) {
				began = time.Now()
			}
			for longest = max(longest, waited); last < steps; last++ { // several when they are faster than polls
				all = append(all, taken{d.steps[last], time.Since(began), longest})
				began, longest = time.Now(), 0
			}
		}
	})
	return all
}

// check compares the database with the responses.
func (d *drill) check(all []taken) {
	d.Say("checking")
	d.Promise("no request fails", d.load.failures() == 0, "%d failures", d.load.failures())
	d.checkClicks()
	d.checkLinks()
	const again = 2000
	wrong := 0
	for range again {
		number := rand.IntN(len(d.codes))
		if c := rig.Must(d.tenant.At(d.late.Address).CreateLink(urlOf(number))); c.Created || c.Link.Code != d.codes[number] {
			wrong++
		}
	}
	d.Promise("a URL has the code of before", wrong == 0, "%d created again, %d with another code", again, wrong)
	env := append(d.ServicesEnv(), "LINKFORGE_DATA_DIR="+filepath.Join(d.Folder, "commands"),
		"LINKFORGE_JWT_SECRET="+rig.Secret, "LINKFORGE_CODE_SECRET="+rig.Secret, "LINKFORGE_CLICK_MONTHS=1")
	status := rig.Must(d.Linkforge(env, "migrate", "status"))
	pending := strings.Count(status, "pending")
	d.Promise("migrate status reports that all steps are taken", pending == 0, "%d pending", pending)
	d.Promise("the steps are those that were pending", len(all) == len(d.steps)-len(d.earlySteps),
		"%d taken, after %d of the early version", len(all), len(d.earlySteps))
	verify, err := d.Linkforge(env, "stats", "verify")
	d.Promise("stats verify finds no difference", err == nil, "%.300s", strings.Join(strings.Fields(verify), " "))
	logs := rig.Must(filepath.Glob(filepath.Join(d.Folder, "data", "clicks", "log_*")))
	d.Promise("no log of the early server is left", len(logs) == 1, "%d logs, one of which is the late server's", len(logs))
}

// checkClicks waits until all redirects are counted, and compares link by link.
func (d *drill) checkClicks() {
	want := d.load.redirects()
	d.Eventually(want, func() int64 { return d.Number(d.DatabaseURL, "SELECT count(*) FROM clicks") })
	clicks := map[string]int64{}
	var all, uneven int64
	for _, c := range rig.Rows[struct {
		Code         string
		Clicks, Rows int64
	}](d.Run, d.DatabaseURL, `SELECT l.code, t.clicks, (SELECT count(*) FROM clicks c WHERE c.link_id = l.id) AS rows
		FROM click_totals t JOIN links l ON l.id = t.subject_id`) {
		clicks[c.Code] = c.Clicks
		all += c.Clicks
		if c.Rows != c.Clicks {
			uneven++
		}
	}
	wrong := 0
	for number, code := range d.codes {
		if clicks[code] != d.load.clicks[number].Load() {
			wrong++
		}
	}
	d.Promise("every redirect is counted once", wrong == 0 && all == want && uneven == 0,
		"%d redirects, %d counted; %d links differ, the sum of %d is not that of the clicks", want, all, wrong, uneven)
}

// checkLinks compares the links in the database with the responses, codes included.
func (d *drill) checkLinks() {
	codes := map[string]string{}
	rows := rig.Rows[struct{ URL, Code string }](d.Run, d.DatabaseURL,
		"SELECT original_url, code FROM links WHERE workspace_id = $1", d.tenant.Workspace)
	for _, r := range rows {
		codes[r.URL] = r.Code
	}
	wrong := 0
	for number, code := range d.codes {
		if codes[urlOf(number)] != code {
			wrong++
		}
	}
	for number, code := range d.load.codes {
		if codes[urlOf(number)] != code {
			wrong++
		}
	}
	want := len(d.codes) + len(d.load.codes)
	d.Promise("every link that was created exists", wrong == 0 && len(rows) == want && len(codes) == want,
		"%d created, %d in the database; %d without their code", want, len(rows), wrong)
}
