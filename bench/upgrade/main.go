// Command upgrade is the drill of an upgrade. A server of an early version serves a million links under
// load. A server of this tree starts beside it and migrates the schema, the load moves over, and the
// early one stops. No request may fail meanwhile, every URL keeps its code,
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
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	linkCount = flag.Int("links", 1_000_000, "number of links before the load begins")
	from      = flag.String("from", "", "git revision of the early version; the oldest that can be upgraded when empty")
	phaseTime = flag.Duration("phase", 15*time.Second, "duration of each phase of the load but the migration's")
	dumpTime  = flag.Duration("dump", 4*time.Second, "duration of a dump while the late server migrates; 0 for none")
)

const (
	firstStep  = "0047_grants" // of the oldest schema that can be upgraded under load: see docs/OPERATIONS.md
	migrations = "migrations/postgres"
	// longestMigration bounds the wait for the late server, which migrates a million links on a slow disk.
	longestMigration = 15 * time.Minute
)

func main() {
	rig.Main(func(r *rig.Run) {
		r.Patience = longestMigration
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
// whose migrations have not changed since, but for comments.
func (d *drill) findRevision() {
	d.steps = stepsOf(rig.Must(filepath.Glob(filepath.Join(d.root, migrations, "*.up.sql"))))
	candidates := []string{*from}
	if *from == "" {
		candidates = strings.Fields(rig.Must(d.git("log", "--reverse", "--format=%H", "--", "migrations")))
	}
	for _, hash := range candidates {
		files := strings.Fields(rig.Must(d.git("ls-tree", "--name-only", hash, migrations+"/")))
		d.hash, d.earlySteps = hash, stepsOf(files)
		if d.hasSameStatements() && (*from != "" || slices.Contains(d.earlySteps, firstStep)) {
			return
		}
	}
	rig.Failf("no version %s has the step %s and migrations that this tree's begin with", *from, firstStep)
}

// hasSameStatements reports whether this tree has all migrations of the early version with the same
// statements.
func (d *drill) hasSameStatements() bool {
	for _, dialect := range []string{migrations, "migrations/sqlite"} {
		for _, file := range strings.Fields(rig.Must(d.git("ls-tree", "--name-only", d.hash, dialect+"/"))) {
			if !strings.HasSuffix(file, ".up.sql") {
				continue
			}
			current, err := os.ReadFile(filepath.Join(d.root, file))
			if err != nil || statements(string(current)) != statements(rig.Must(d.git("show", d.hash+":"+file))) {
				return false
			}
		}
	}
	return true
}

var comment = regexp.MustCompile(`--.*`)

// statements returns a migration without comments and with normalized white space.
func statements(script string) string {
	return strings.Join(strings.Fields(comment.ReplaceAllString(script, "")), " ")
}

// run fills the early server, upgrades it under load, and checks.
func (d *drill) run() {
	binary := filepath.Join(d.Folder, "linkforge-early")
	d.BuildRevision(d.hash, binary)
	d.early = d.start("early", binary)
	d.tenant = d.NewTenant(d.early.Address, "drill", &http.Transport{})
	filled := d.Timed("creating the links", func() {
		for _, created := range d.tenant.Fill(*linkCount, 1000, 4, func(number int) map[string]any {
			return map[string]any{"url": rig.URLOf(number)}
		}) {
			d.codes = append(d.codes, created.Link.Code)
		}
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
	d.load.aim(d.late.Address) // and waits for requests in flight, as a proxy does before the server is stopped
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

// start starts a server. Both share a data folder, so that the late one adopts clicks in the
// early one's log.
func (d *drill) start(name, binary string) *rig.Process {
	return d.Serve(name, binary, append(d.ServicesEnv(), "LINKFORGE_PUBLIC_URL="+rig.PublicURL,
		"LINKFORGE_DATA_DIR="+filepath.Join(d.Folder, "data"), "LINKFORGE_DRAIN_DELAY=0s")...)
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

// migrationLock is the key of the advisory lock of migrations: see internal/platform/db/migrate.go.
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
		if c := rig.Must(d.tenant.At(d.late.Address).CreateLink(rig.URLOf(number))); c.Created || c.Link.Code != d.codes[number] {
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
	_ = rig.Try(func() { // the promise fails otherwise
		d.Await("all are counted", func() bool { return d.Number(d.DatabaseURL, "SELECT count(*) FROM clicks") >= want })
	})
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
		if codes[rig.URLOf(number)] != code {
			wrong++
		}
	}
	for number, code := range d.load.codes {
		if codes[rig.URLOf(number)] != code {
			wrong++
		}
	}
	want := len(d.codes) + len(d.load.codes)
	d.Promise("every link that was created exists", wrong == 0 && len(rows) == want && len(codes) == want,
		"%d created, %d in the database; %d without their code", want, len(rows), wrong)
}

// phase is a part of the drill.
type phase int32

const (
	before phase = iota
	migrating
	beside
	after
	phases
)

func (p phase) String() string {
	return [...]string{"the early server alone", "the late server starts and migrates", "both, side by side",
		"the late server alone"}[p]
}

// kinds are the kinds of requests: how many workers send them, and how long each pauses after a
// response. A small machine is busy with these hundreds of requests a second, and not overloaded.
var kinds = []struct {
	name    string
	workers int
	pause   time.Duration
	send    func(*load, *rig.Tenant) error
}{
	{"redirect", 8, 20 * time.Millisecond, (*load).redirect},
	{"createLink, a new URL", 3, 50 * time.Millisecond, (*load).create},
	{"createLink, a URL that has a link", 3, 50 * time.Millisecond, (*load).createAgain},
	{"query: a page of links with clicks", 2, 100 * time.Millisecond, (*load).query},
}

// load is the traffic of the drill.
type load struct {
	*drill
	phase  atomic.Int32
	clicks []atomic.Int64 // redirects by link
	next   atomic.Int64   // of new URLs, which are numbered from the end of the drill's

	// targets are the servers that receive requests in turn. Requests in flight hold the lock.
	inFlight sync.RWMutex
	targets  []string
	turn     atomic.Int64

	mu      sync.Mutex
	results [][phases]results // by kind
	codes   map[int]string    // of new URLs, by number
}

// results are those of the requests of one kind in a phase.
type results struct {
	times  []time.Duration
	failed []string
}

func newLoad(d *drill) *load {
	l := &load{drill: d, clicks: make([]atomic.Int64, len(d.codes)), results: make([][phases]results, len(kinds)),
		targets: []string{d.early.Address}, codes: map[int]string{}}
	return l
}

// aim waits for requests in flight, and sends all further requests to these servers.
func (l *load) aim(addresses ...string) {
	l.inFlight.Lock()
	defer l.inFlight.Unlock()
	l.targets = addresses
}

func (l *load) enter(p phase) { l.phase.Store(int32(p)) }

// start starts the load, and returns a function that stops it and waits for requests in flight.
func (l *load) start() (stop func()) {
	var running sync.WaitGroup
	ended := make(chan struct{})
	for i, k := range kinds {
		for range k.workers {
			running.Go(func() {
				for l.sendOne(i); ; l.sendOne(i) {
					select {
					case <-ended:
						return
					case <-time.After(k.pause/2 + rand.N(k.pause)):
					}
				}
			})
		}
	}
	return sync.OnceFunc(func() {
		close(ended)
		running.Wait()
	})
}

func (l *load) sendOne(kind int) {
	l.inFlight.RLock()
	defer l.inFlight.RUnlock()
	address := l.targets[int(l.turn.Add(1))%len(l.targets)]
	began, p := time.Now(), phase(l.phase.Load())
	err := kinds[kind].send(l, l.tenant.At(address))
	if p == before && phase(l.phase.Load()) >= migrating { // it overlaps the migration
		p = migrating
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.results[kind][p]
	r.times = append(r.times, time.Since(began))
	if err != nil {
		r.failed = append(r.failed, err.Error())
	}
}

// redirect follows any link.
func (l *load) redirect(c *rig.Tenant) error {
	number := rand.IntN(len(l.drill.codes))
	status, to, err := c.Follow(http.MethodGet, "/"+l.drill.codes[number])
	if status == http.StatusFound {
		l.clicks[number].Add(1)
	}
	if err == nil && (status != http.StatusFound || to != rig.URLOf(number)) {
		err = fmt.Errorf("status %d, to %q", status, to)
	}
	return err
}

// create creates a link of a URL that has none.
func (l *load) create(c *rig.Tenant) error {
	number := len(l.drill.codes) + int(l.next.Add(1)) - 1
	created, err := c.CreateLink(rig.URLOf(number))
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.codes[number] = created.Link.Code
	l.mu.Unlock()
	if !created.Created || created.Link.Code == "" {
		err = fmt.Errorf("URL %d: %+v", number, created)
	}
	return err
}

// createAgain creates a link that exists: of the beginning, or of those created since, perhaps by
// the other version.
func (l *load) createAgain(c *rig.Tenant) error {
	number := rand.IntN(len(l.drill.codes))
	want := l.drill.codes[number]
	if rand.IntN(2) == 0 {
		l.mu.Lock()
		for n, code := range l.codes { // any
			number, want = n, code
			break
		}
		l.mu.Unlock()
	}
	created, err := c.CreateLink(rig.URLOf(number))
	if err == nil && (created.Created || created.Link.Code != want) {
		err = fmt.Errorf("URL %d: %+v, which had the code %q", number, created, want)
	}
	return err
}

func (l *load) query(c *rig.Tenant) error {
	var got struct {
		Workspace struct {
			Links struct {
				Edges []struct{ Node struct{ Code string } }
			}
		}
	}
	err := c.Do(&got, `query ($w: ID!) { workspace(by: {id: $w}) { links(first: 20) { edges { node {
		id code originalUrl clickCount } } } } }`, map[string]any{"w": l.tenant.Workspace})
	if n := len(got.Workspace.Links.Edges); err == nil && n != 20 {
		err = fmt.Errorf("a page of %d links", n)
	}
	return err
}

// failures returns the number of failed requests.
func (l *load) failures() (all int) {
	for _, byPhase := range l.results {
		for _, r := range byPhase {
			all += len(r.failed)
		}
	}
	return all
}

// redirects returns the number of redirects.
func (l *load) redirects() (all int64) {
	for i := range l.clicks {
		all += l.clicks[i].Load()
	}
	return all
}

func (l *load) report() {
	for p := range phases {
		rows := [][]string{{p.String(), "responses", "failures", "median", "99 %", "slowest"}}
		for i, k := range kinds {
			r := &l.results[i][p]
			row := []string{k.name, fmt.Sprint(len(r.times)), fmt.Sprint(len(r.failed))}
			for _, part := range []float64{0.5, 0.99, 1} {
				row = append(row, fmt.Sprintf("%.1f ms", rig.Millis(rig.Percentile(r.times, part))))
			}
			rows = append(rows, row)
		}
		rig.Table(rows...)
	}
	for i, byPhase := range l.results {
		for p, r := range byPhase {
			if len(r.failed) > 0 {
				fmt.Printf("- failed: %s, %s: %s\n", kinds[i].name, phase(p), r.failed[0])
			}
		}
	}
}
