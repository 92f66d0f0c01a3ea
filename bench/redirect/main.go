// Command redirect compares the redirect path with a constant net/http handler and
// with the textbook's implementations. All targets are measured in one run, in pairs, because
// machines differ and are shared: quote the ratios.
//
//	../scripts/with-services go run ./redirect -links 20000 -rounds 1 -burst 1s
//
// It exits with 1 after a wrong response, or when the clicks do not add up.
package main

import (
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	links       = flag.Int("links", 1_000_000, "number of links")
	rounds      = flag.Int("rounds", 5, "number of bursts of each target and number of connections")
	burst       = flag.Duration("burst", 3*time.Second, "duration of a burst")
	resolve     = flag.Bool("look", false, "fill caches by HEAD: measured visits are then the first of the month")
	connections = []int{64, 256} // over which bursts are sent
)

func main() {
	rig.Main(run, rig.Helpers{"constant": rig.ServeConstant(rig.URLOf(0)), "textbook": serveTextbook})
}

type bench struct {
	*rig.Run
	targets []*target
}

// kind is the role of a target.
type kind int

const (
	baseline   kind = iota // the constant handler, which all others are compared with
	ours                   // Linkforge
	competitor             // the textbook
)

// backend is where Linkforge and the textbook store data. SQLite has a file for each, since each is
// its only writer.
type backend struct {
	name            string
	settings        []string // of Linkforge
	links, textbook string   // databases, as rig.Open takes them
	redisURL        string   // of the textbook; empty starts one in its process
}

// target is a server that is measured.
type target struct {
	rig.Target
	kind    kind
	on      *backend // nil when it has no data
	process *rig.Process
	// seen is the number of its redirects, counted the number of clicks in its database.
	seen, counted int64
	before, after int               // its memory around the warm-up
	figures       map[int][]figures // by the number of connections
}

// figures are those of a burst, and their ratios to those of the constant handler in the burst
// before.
type figures struct {
	rig.Figures
	ofRate, ofP99 float64
}

func run(r *rig.Run) {
	r.OpenServices()
	b := &bench{Run: r}
	data, own := filepath.Join(r.Folder, "data"), filepath.Join(r.Folder, "textbook.db")
	embedded := &backend{name: "SQLite", settings: []string{"LINKFORGE_DATA_DIR=" + data},
		links: filepath.Join(data, "linkforge.db"), textbook: own}
	servers := &backend{name: "PostgreSQL",
		settings: append(r.ServicesEnv(), "LINKFORGE_JWT_SECRET="+rig.Secret, "LINKFORGE_CODE_SECRET="+rig.Secret),
		links:    r.DatabaseURL, textbook: r.DatabaseURL, redisURL: r.RedisURL}
	rig.Parallel(func() { b.fill(embedded) }, func() { b.fill(servers) })
	r.Say("%d links are on both backends", *links)

	b.add("net/http, a constant 302", baseline, nil, r.Helper("constant", nil, "constant"))
	b.add("Linkforge embedded", ours, embedded, b.startLinkforge(embedded))
	b.add("Linkforge on PostgreSQL + Redis", ours, servers, b.startLinkforge(servers))
	b.add("SELECT, DECR, UPDATE on SQLite", competitor, embedded, b.startTextbook(embedded, "quota"))
	b.add("SELECT, UPDATE on SQLite", competitor, embedded, b.startTextbook(embedded, "plain"))
	b.add("SELECT, DECR, UPDATE on PostgreSQL + Redis", competitor, servers, b.startTextbook(servers, "quota"))
	b.add("SELECT, UPDATE on PostgreSQL", competitor, servers, b.startTextbook(servers, "plain"))
	for _, t := range b.targets {
		b.warmUp(t)
	}
	for round := range *rounds {
		b.Say("round %d of %d", round+1, *rounds)
		for _, n := range connections {
			b.measureAll(n, uint64(round))
		}
	}
	for _, t := range b.targets {
		b.stopAndCount(t)
	}
	b.report()
}

func (b *bench) add(name string, k kind, on *backend, p *rig.Process) {
	t := &target{Target: rig.Target{Name: name, Own: []int{p.PID}}, kind: k, on: on, process: p,
		figures: map[int][]figures{}}
	if on != nil && on.redisURL != "" {
		t.Beside = b.ServicePIDs
	}
	b.targets = append(b.targets, t)
}

// fill migrates a backend, and inserts the textbook's rows and the links made of them. Columns that
// only searches need stay empty.
func (b *bench) fill(on *backend) {
	rig.Must(b.Linkforge(on.settings, "migrate", "up"))
	const table = "CREATE TABLE textbook (code TEXT PRIMARY KEY, url TEXT NOT NULL, clicks BIGINT NOT NULL DEFAULT 0)"
	attach, number, hash := "SELECT 1", "lpad((row_number() OVER ())::text, 26, '0')", "sha256(url::bytea)"
	if on.redisURL != "" {
		// PostgreSQL must not vacuum it while others are measured.
		b.Copy(on.textbook, table+" WITH (autovacuum_enabled = false)", "textbook", []string{"code", "url"}, *links,
			func(i int) []any { return []any{rig.Code(i), rig.URLOf(i)} })
		b.Exec(on.textbook, "GRANT SELECT ON textbook TO linkforge_system")
	} else {
		attach, number, hash = "ATTACH '"+on.textbook+"' AS other", "printf('%026d', rowid)", "randomblob(32)"
		b.In(on.textbook, false, func(d *sql.DB) { b.insert(d, table) })
	}
	const created = "'2026-01-01 00:00:00+00:00'"
	workspace := fmt.Sprintf("'ws_%026d'", 1)
	b.In(on.links, true, func(d *sql.DB) {
		d.SetMaxOpenConns(1)
		for _, statement := range []string{attach,
			"INSERT INTO workspaces (id, slug, name, created_at, updated_at) VALUES (" + workspace +
				", 'bench', 'Bench', " +
				created + ", " + created + ")",
			"INSERT INTO slugs (slug, workspace_id, created_at) VALUES ('bench', " + workspace + ", " + created + ")",
			`INSERT INTO links (id, workspace_id, code, root_code, original_url, canonical_url, canonical_hash,
				strategy, redirect_status, created_at, updated_at)
				SELECT 'lnk_' || ` + number + ", " + workspace + ", code, code, url, url, " +
				hash + ", 'DETERMINISTIC', 302, " + created + ", " + created + " FROM textbook"} {
			rig.Must(d.ExecContext(b, statement))
		}
	})
	if on.redisURL != "" {
		b.Exec(on.links, "VACUUM ANALYZE")
	}
}

func (b *bench) insert(d *sql.DB, table string) {
	rig.Must(d.ExecContext(b, table))
	tx := rig.Must(d.BeginTx(b, nil))
	insert := rig.Must(tx.PrepareContext(b, "INSERT INTO textbook (code, url) VALUES ($1, $2)"))
	for i := range *links {
		rig.Must(insert.ExecContext(b, rig.Code(i), rig.URLOf(i)))
	}
	rig.Check(tx.Commit())
}

func (b *bench) startLinkforge(on *backend) *rig.Process {
	const defaultCache, cachedLink = 256 << 20, 600 // LINKFORGE_CACHE_BYTES, and its part for a link: all links fit
	cache := "LINKFORGE_CACHE_BYTES=" + strconv.Itoa(max(defaultCache, *links*cachedLink))
	return b.Serve("linkforge-"+on.name, b.Server, append([]string{cache}, on.settings...)...)
}

func (b *bench) startTextbook(on *backend, variant string) *rig.Process {
	return b.Helper("textbook-"+on.name+"-"+variant, []string{textbookDatabase + "=" + on.textbook,
		textbookRedis + "=" + on.redisURL}, "textbook", variant)
}

// load is a burst of visits by a Zipf distribution, or without one a visit of each link. Which
// links are popular does not depend on when they were created.
func (t *target) load(connections int, burst time.Duration, seed uint64) rig.Load {
	l := rig.Load{Address: t.process.Address, Connections: connections, Status: http.StatusFound, Burst: burst,
		N: *links}
	l.Requests = func(i int) string { return "/" + rig.Code(i) }
	if burst > 0 {
		byRank := rand.New(rand.NewPCG(0, 0)).Perm(*links)
		rank := rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), rig.Skew, 1, uint64(*links-1))
		l.N = 1 << 18 // a burst that has more requests repeats them
		l.Requests = func(int) string { return "/" + rig.Code(byRank[rank.Uint64()]) }
	}
	return l
}

// warmUp visits or resolves every link once on Linkforge, and visits other targets for a moment.
func (b *bench) warmUp(t *target) {
	l := t.load(connections[0], min(*burst, time.Second), 0)
	if t.kind == ours {
		l = t.load(connections[0], 0, 0)
		if *resolve {
			l.Requests = func(i int) string { return "?/" + rig.Code(i) }
		}
	}
	t.before = rig.RSS(t.process.PID)
	o := b.Drive(t.Name, l)
	if !*resolve || t.kind != ours {
		t.seen += o.Right
	}
	b.Rest(t.PIDs(), 30*time.Minute)
	t.after = rig.RSS(t.process.PID)
	b.Say("%s is warm: %d requests in %.1f s", t.Name, o.Right, o.Took.Seconds())
}

// measureAll measures each target right after the constant handler, but not the textbook, which is
// compared with Linkforge.
func (b *bench) measureAll(n int, seed uint64) {
	constant := b.targets[0]
	var base figures
	for _, t := range b.targets {
		if t == constant {
			continue
		}
		if t.kind != competitor {
			base = b.measure(constant, n, seed, base)
		}
		b.measure(t, n, seed, base)
	}
}

func (b *bench) measure(t *target, n int, seed uint64, base figures) figures {
	const warmUp = 2 * time.Second // after a pause, short-lived caches are empty
	got, o, before := b.Measure(t.Target, warmUp, t.load(n, *burst, seed))
	t.seen += o.Right + before.Right
	f := figures{got, 1, 1}
	if t.kind != baseline {
		f.ofRate, f.ofP99 = f.Rate/base.Rate, f.P99/base.P99
	}
	t.figures[n] = append(t.figures[n], f)
	return f
}

// stopAndCount stops a target, and compares the clicks in Linkforge's database with its redirects.
func (b *bench) stopAndCount(t *target) {
	t.process.Stop()
	if t.kind != ours {
		return
	}
	const clicks = "SELECT coalesce(sum(clicks), 0) FROM click_totals WHERE subject_id <> workspace_id"
	if t.counted = b.Number(t.on.links, clicks); t.counted < t.seen {
		b.startLinkforge(t.on).Stop() // ingests the rest of the click log before it is ready
		t.counted = b.Number(t.on.links, clicks)
	}
	if t.counted != t.seen {
		b.Wrongf("%s: clicks counted %d, redirects seen %d", t.Name, t.counted, t.seen)
	}
}

// report prints everything in Markdown.
func (b *bench) report() {
	fmt.Printf("%d links, %d rounds of %s, %s. Medians, with the least and the most.\n", *links, *rounds, *burst,
		rig.Machine())
	for _, n := range connections {
		rows := [][]string{{fmt.Sprintf("%d connections", n), "requests/s", "of net/http", "Linkforge is × faster",
			"CPU µs", "CPU µs, PostgreSQL + Redis", "p50 ms", "p99 ms", "p99 of net/http's", "at rest after s"}}
		for _, t := range b.targets {
			row := []string{t.Name}
			for _, c := range columns {
				row = append(row, rig.Spread(t.figures[n], c.format, c.of))
			}
			row[3] = rig.Spread(b.outpaced(t, n), "%.1f", rig.Same)
			if len(t.Beside) == 0 {
				row[5] = ""
			}
			rows = append(rows, row)
		}
		rig.Table(rows...)
	}
	b.ReportMachine()
	for _, t := range b.targets {
		if t.kind == ours {
			fmt.Printf("- %s: clicks counted %d, redirects seen %d. %d MiB before every link was visited, %d after: "+
				"%d bytes "+
				"a link.\n", t.Name, t.counted, t.seen, t.before>>20, t.after>>20, (t.after-t.before) / *links)
			rig.ReportWarnings(t.process)
		}
	}
}

var columns = []struct {
	format string
	of     func(figures) float64
}{
	{"%.0f", func(f figures) float64 { return f.Rate }}, {"%.2f", func(f figures) float64 { return f.ofRate }},
	{"%.0f", func(figures) float64 { return 0 }}, // of the textbook only
	{"%.1f", func(f figures) float64 { return f.Own }}, {"%.1f", func(f figures) float64 { return f.Beside }},
	{"%.2f", func(f figures) float64 { return f.P50 }}, {"%.2f", func(f figures) float64 { return f.P99 }},
	{"%.2f", func(f figures) float64 { return f.ofP99 }}, {"%.1f", func(f figures) float64 { return f.Rest }},
}

// outpaced returns the ratios of Linkforge's rate to the textbook's on the same backend.
func (b *bench) outpaced(t *target, connections int) (times []float64) {
	for _, l := range b.targets {
		if t.kind == competitor && l.kind == ours && l.on == t.on {
			for i, f := range l.figures[connections] {
				times = append(times, f.Rate/t.figures[connections][i].Rate)
			}
		}
	}
	return times
}
