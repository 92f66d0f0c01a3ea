// Command clicks measures ingest and stats with a year of clicks: it generates clicks of 10,000
// links over 13 months, sends them through the recorder, runs the jobs as the days pass, and
// queries stats as tenants do. Ingest is compared with PostgreSQL's own COPY of the same rows, in
// turns in one run, because machines differ and are shared: quote the ratio.
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./clicks -clicks 300000
//
// Its clock is that of the clicks. It exits with 1 when a click is lost, or when stats differ from
// the clicks that were sent.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/migrations"
)

var (
	clickCount   = flag.Int("clicks", 10_000_000, "number of clicks")
	sqliteClicks = flag.Int("sqlite-clicks", 1_000_000, "number of clicks on SQLite, at most -clicks; 0 leaves it out")
	linkCount    = flag.Int("links", 10_000, "number of links")
	months       = flag.Int("months", 13, "number of months before the current one that clicks are of")
	roundSize    = flag.Int("round", 200_000, "number of clicks that are ingested before PostgreSQL copies the same")
	engines      = flag.String("engines", "postgres,sqlite,clickhouse", "the engines that are measured")
	queries      = flag.Int("asks", 200, "number of repetitions of each query")
	simulated    = flag.Int("simulated", 1_000_000, "number of clicks that a routing is tried on; 0 leaves it out")
	checks       = flag.Int("checks", 40, "number of ranges whose stats are compared with the clicks")
)

const (
	seed = 1
	// workspaces own the links in turn.
	workspaces = 20
	// maxWaiting bounds the clicks in the log, minBetweenJobs the clicks between two runs of the
	// jobs, so that batches are as full with few clicks a day as with many.
	maxWaiting     = 100_000
	minBetweenJobs = 5000
)

func main() {
	rig.Main(func(r *rig.Run) {
		if *linkCount < workspaces || *clickCount < 1000 || *months < 1 || *months > 13 ||
			min(*roundSize, *queries) < 1 {
			rig.Failf("at least %d links, 1000 clicks and 1 to 13 months are needed", workspaces)
		}
		r.OpenServices()
		now := time.Now().UTC()
		if strings.Contains(*engines, "postgres") {
			(&bench{Run: r, kind: db.Postgres, stream: newStream(*clickCount, now)}).run()
		}
		if n := min(*sqliteClicks, *clickCount); n > 0 && strings.Contains(*engines, "sqlite") {
			(&bench{Run: r, kind: db.SQLite, stream: newStream(n, now)}).run()
		}
		if strings.Contains(*engines, inClickHouse) {
			r.OpenServices()
			(&bench{Run: r, kind: inClickHouse, stream: newStream(*clickCount, now)}).run()
		}
	}, nil)
}

// bench is a run on one database.
type bench struct {
	*rig.Run
	*stream
	kind     db.Kind
	db       *db.DB
	owner    *pgx.Conn // for COPY; nil on SQLite
	system   *pgx.Conn // reads the rows to copy
	recorder *ingest.Recorder
	clock    atomic.Int64 // in microseconds
	store    clickstore.Store
	ledger   *clickstore.Ledger
	engine   *url.URL // of ClickHouse; nil elsewhere
	members  []workspace.Membership
	byLink   map[string]int // index of a link

	today   int64 // day of the last click that was sent
	pending int   // clicks since the jobs have run
	copied  time.Time
	rounds  []round
}

func (b *bench) now() time.Time { return time.UnixMicro(b.clock.Load()).UTC() }

// run sends all clicks, measures queries, and compares stats with the clicks that were sent.
func (b *bench) run() {
	stop := b.open()
	for len(b.rounds) == 0 || b.sent < b.total {
		b.sendRound()
	}
	b.clock.Store(b.end.UnixMicro())
	b.runJobs(&b.rounds[len(b.rounds)-1])
	if s := b.recorder.Stats(); s.Lost > 0 || s.Poison > 0 || s.Waiting > 0 || s.Ingested != int64(b.total) {
		b.Wrongf("%s: the recorder reports %+v, not %d clicks ingested", b.kind, s, b.total)
	}
	if t := rig.Must(b.ledger.Platform(b)); t.Clicks != int64(b.total) {
		b.Wrongf("%s: the links have %d clicks, not %d", b.kind, t.Clicks, b.total)
	}
	b.reportIngest()
	b.query()
	b.checkClicks()
	b.checkRanges()
	b.simulate()
	rig.Check(stop())
}

// open creates a database with everything but clicks, and starts the recorder.
func (b *bench) open() (stop func() error) {
	const pool = 10
	if b.kind == inClickHouse {
		b.db = rig.Must(db.OpenPostgres(b.DatabaseURL, pool))
	} else if b.kind == db.Postgres {
		b.owner, b.system = rig.Must(pgx.Connect(b, b.DatabaseURL)), rig.Must(pgx.Connect(b, b.DatabaseURL))
		b.db = rig.Must(db.OpenPostgres(b.DatabaseURL, pool))
	} else {
		b.db = rig.Must(db.OpenSQLite(filepath.Join(b.Folder, "bench.db"), pool))
	}
	rig.Must(migrate.Up(b, b.db, migrations.Files, time.Now()))
	b.clock.Store(b.begin.UnixMicro())
	b.ledger = &clickstore.Ledger{DB: b.db}
	if b.kind == inClickHouse {
		b.openClickHouse()
	} else {
		b.store = &clicksql.Store{DB: b.db, ClickMonths: *months, Now: b.now}
	}
	now := db.Instant(time.Now())
	a := account.Account{ID: id.New(id.Account), Email: rig.TenantEmail, Name: "Bench", CreatedAt: now, UpdatedAt: now}
	rig.Must(b.db.NewInsert().Model(&a).Exec(db.AsSystem(b)))
	store := workspace.Store{DB: b.db, Now: time.Now}
	for n := range workspaces {
		name := fmt.Sprintf("bench-%d", n+1)
		b.members = append(b.members, rig.Must(store.Create(b, account.Actor{AccountID: a.ID}, name, name)))
	}
	b.byLink = map[string]int{}
	for i, link := range b.links {
		b.byLink[link] = i
	}
	b.prepareCopy()
	log := rig.Must(ingest.OpenLog(ingest.LogConfig{Dir: filepath.Join(b.Folder, "clicks-"+string(b.kind)), Now: b.now,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}))
	b.recorder = ingest.NewRecorder(ingest.RecorderConfig{Clicks: b.store, Ledger: b.ledger, Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.recorder.Run(ctx) }()
	b.Cleanup(func() error {
		cancel()
		if b.owner != nil {
			_, _ = b.owner.Close(context.Background()), b.system.Close(context.Background())
		}
		return b.db.Close()
	})
	return func() error {
		cancel()
		return <-ended
	}
}

// prepareCopy creates a table with the columns, indexes and partitions of clicks.
func (b *bench) prepareCopy() {
	if b.owner == nil {
		return
	}
	rig.Must(b.system.Exec(b, "SET ROLE linkforge_system"))
	rig.Must(b.owner.Exec(b, "CREATE TABLE copied_clicks (LIKE clicks INCLUDING ALL) PARTITION BY RANGE (clicked_at)"))
	for m := click.MonthOf(b.begin); !m.Start().After(b.end); m = click.MonthOf(m.End()) {
		rig.Must(b.owner.Exec(b,
			fmt.Sprintf("CREATE TABLE copied_clicks_%s PARTITION OF copied_clicks FOR VALUES FROM ('%s') "+
				"TO ('%s')", m.Start().Format("2006_01"), m.Start().Format(time.RFC3339),
				m.End().Format(time.RFC3339))))
	}
}

// round is what some clicks took.
type round struct {
	clicks, upTo               int // their number, and that of all clicks after them
	ingest, copying            time.Duration
	jobs                       [3]time.Duration // Seal, ForgetVisitors, Retain
	engine, engineJobs         time.Duration    // of the processors, by ClickHouse
	ingestWAL, allWAL, copyWAL int64            // bytes that PostgreSQL wrote to its log
}

func (r round) total() time.Duration { return r.ingest + r.jobs[0] + r.jobs[1] + r.jobs[2] }

// each divides a part of a round by its clicks, in microseconds.
func (r round) each(part time.Duration) float64 { return rig.Micros(part) / float64(r.clicks) }

// sendRound generates clicks, ingests them, and copies them.
func (b *bench) sendRound() {
	clicks := make([]click.Click, 0, *roundSize)
	var c click.Click
	for len(clicks) < *roundSize && b.next(&c) {
		c.WorkspaceID = b.members[b.byLink[c.LinkID]%workspaces].ID()
		clicks = append(clicks, c)
	}
	r := round{clicks: len(clicks), upTo: b.sent}
	before := b.walPosition()
	for len(clicks) > 0 {
		n := b.untilJobs(clicks)
		start, used, began := b.walPosition(), b.usedByClickHouse(), time.Now()
		b.send(clicks[:n])
		r.ingest += time.Since(began)
		r.engine += b.usedByClickHouse() - used
		r.ingestWAL += b.walPosition() - start
		if clicks = clicks[n:]; len(clicks) > 0 {
			b.runJobs(&r)
		}
	}
	r.allWAL = b.walPosition() - before
	b.copy(&r)
	b.rounds = append(b.rounds, r)
	b.Say("%s: %d clicks, %.1f µs each, with the jobs %.1f", b.kind, b.sent, r.each(r.ingest), r.each(r.total()))
}

// untilJobs returns how many clicks are before the next run of the jobs, at a midnight (UTC).
func (b *bench) untilJobs(clicks []click.Click) int {
	for i := range clicks {
		if day := click.DayOf(clicks[i].ClickedAt); day != b.today {
			b.today = day
			if b.pending >= minBetweenJobs {
				b.pending = 0
				return i
			}
		}
		b.pending++
	}
	return len(clicks)
}

// send records clicks, and waits until the database has them.
func (b *bench) send(clicks []click.Click) {
	for i := range clicks {
		b.clock.Store(clicks[i].ClickedAt.UnixMicro())
		b.recorder.Record(&clicks[i])
		if i%1000 == 0 && b.recorder.Stats().Waiting > maxWaiting {
			rig.Check(b.recorder.Flush(b))
		}
	}
	rig.Check(b.recorder.Flush(b))
}

// runJobs runs the daily jobs.
func (b *bench) runJobs(r *round) {
	if b.now() != b.end {
		b.clock.Store(time.Unix(b.today*int64(click.Day/time.Second), 0).UnixMicro())
	}
	used := b.usedByClickHouse()
	forget := func(ctx context.Context) error { return b.ledger.ForgetVisitors(ctx, b.now()) }
	for i, job := range []func(context.Context) error{b.store.Seal, forget, b.store.Retain} {
		began := time.Now()
		rig.Check(job(b))
		r.jobs[i] += time.Since(began)
	}
	r.engineJobs += b.usedByClickHouse() - used
}

// copy has PostgreSQL copy the clicks of a round: one COPY in binary format.
func (b *bench) copy(r *round) {
	if b.owner == nil {
		return
	}
	var rows bytes.Buffer
	from := b.copied
	b.copied = b.now()
	rig.Must(b.system.PgConn().CopyTo(b, &rows, fmt.Sprintf("COPY (SELECT * FROM clicks WHERE clicked_at > '%s' AND "+
		"clicked_at <= '%s') TO STDOUT (FORMAT binary)", from.Format(time.RFC3339Nano),
		b.copied.Format(time.RFC3339Nano))))
	before, began := b.walPosition(), time.Now()
	n := rig.Must(b.owner.PgConn().CopyFrom(b, &rows, "COPY copied_clicks FROM STDIN (FORMAT binary)")).RowsAffected()
	r.copying, r.copyWAL = time.Since(began), b.walPosition()-before
	if n != int64(r.clicks) {
		b.Say("%d clicks were copied of %d", n, r.clicks) // some are in the same microsecond as the last of the round
	}
}

// walPosition is how far PostgreSQL has written its log, in bytes.
func (b *bench) walPosition() (position int64) {
	if b.owner != nil {
		rig.Check(b.owner.QueryRow(b, "SELECT (pg_current_wal_insert_lsn() - '0/0')::BIGINT").Scan(&position))
	}
	return position
}

// reportIngest prints the cost of ingest in Markdown.
func (b *bench) reportIngest() {
	settings := "synchronous=FULL"
	if b.kind == inClickHouse {
		settings = "fsync_after_insert"
	}
	if b.owner != nil {
		rig.Check(b.owner.QueryRow(b, `SELECT string_agg(name || ' ' || setting, ', ') FROM pg_settings WHERE name IN
			('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers')`).Scan(&settings))
	}
	fmt.Printf("\n## %s\n\n%d clicks of %d links in %d workspaces, %s to %s, rounds of %d. %s. %s. Medians of "+
		"rounds, with "+
		"the least and the most.\n", b.kind, b.total, *linkCount, workspaces, b.begin.Format(time.DateOnly),
		b.end.Format(time.DateOnly), *roundSize, settings, rig.Machine())
	rows := [][]string{{"", "clicks/s", "µs a click", "written ahead, bytes a click"}}
	row := func(name string, took func(round) time.Duration, wal func(round) int64) {
		rows = append(rows, []string{name,
			rig.Spread(b.rounds, "%.0f", func(r round) float64 { return 1e6 / r.each(took(r)) }),
			rig.Spread(b.rounds, "%.1f", func(r round) float64 { return r.each(took(r)) }),
			rig.Spread(b.rounds, "%.0f", func(r round) float64 { return float64(wal(r)) / float64(r.clicks) })})
	}
	row("ingest", func(r round) time.Duration { return r.ingest }, func(r round) int64 { return r.ingestWAL })
	row("ingest and the jobs", round.total, func(r round) int64 { return r.allWAL })
	if b.owner != nil {
		row("COPY of the same rows", func(r round) time.Duration { return r.copying },
			func(r round) int64 { return r.copyWAL })
		rows = append(rows, []string{"**ingest / COPY**", rig.Spread(b.rounds, "%.2f", ofCopy), "", ""})
	}
	if b.kind == inClickHouse {
		rows = append(rows,
			[]string{"processors of ClickHouse", "",
				rig.Spread(b.rounds, "%.1f", func(r round) float64 { return r.each(r.engine) }), ""},
			[]string{"and the jobs", "",
				rig.Spread(b.rounds, "%.1f", func(r round) float64 { return r.each(r.engine + r.engineJobs) }), ""})
	}
	rig.Table(rows...)
	b.reportSizes()
}

func ofCopy(r round) float64 { return r.copying.Seconds() / r.ingest.Seconds() }

// reportSizes prints the bytes of a click on disk, after the work that autovacuum does in time.
func (b *bench) reportSizes() {
	rows := [][]string{{"table", "bytes a click"}}
	size := func(name, query string) {
		var bytes float64
		rig.Check(b.db.NewRaw(query).Scan(db.AsOwner(b), &bytes))
		rows = append(rows, []string{name, fmt.Sprintf("%.1f", bytes/float64(b.total))})
	}
	if b.kind == inClickHouse {
		for _, table := range []string{"click_totals", "click_batches"} {
			size(table, "SELECT pg_total_relation_size('"+table+"')::FLOAT")
		}
		rig.Table(append(rows, b.sizesOfClickHouse()...)...)
		return
	}
	if b.owner == nil {
		size("the file", "SELECT CAST(page_count * page_size AS REAL) FROM pragma_page_count, pragma_page_size")
		rig.Table(rows...)
		return
	}
	for _, table := range []string{"clicks", "click_days", "click_totals", "visitors", "click_batches"} {
		rig.Must(b.owner.Exec(b, "VACUUM ANALYZE "+table))
		size(table,
			fmt.Sprintf(`SELECT (pg_total_relation_size('%[1]s') + coalesce((SELECT sum(pg_total_relation_size(relid))
			FROM pg_partition_tree('%[1]s') WHERE level > 0), 0))::FLOAT`, table))
	}
	rig.Table(rows...)
}

func (b *bench) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
