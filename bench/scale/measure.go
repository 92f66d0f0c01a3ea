package main

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// operation is an operation under measurement.
type operation struct {
	name, title string
	// link returns the link to follow in a turn, by GET, or by HEAD if the operation only resolves.
	// It is nil for GraphQL.
	link     func(s shape, turn int, drawn []int) int
	resolves bool
	// once means that each request is about a link of its own: a burst is a number of requests.
	once bool
	// turns is the number of requests of a burst; zero for most, whose bursts have a duration.
	turns int
	// defers means that the server has work to do after the response.
	defers    bool
	document  string
	variables func(s shape, turn int) map[string]any
	expected  string // part of every right response
}

const (
	pageDocument = `query Page($workspace: ID!, $filter: LinkFilter) {
  workspace(by: {id: $workspace}) {
    links(first: 20, filter: $filter) {
      edges { node { code shortUrl originalUrl title status createdAt } }
      pageInfo { hasNextPage endCursor }
    }
  }
}`
	createDocument = `mutation Create($input: CreateLinkInput!) {
  createLink(input: $input) {
    link { id code shortUrl originalUrl title status createdAt }
    created
    errors { message code field }
  }
}`
	statsDocument = `query Stats($id: ID!) {
  link(by: {id: $id}) { stats { clicks visitors series(interval: DAY) { start clicks visitors } } }
}`
	found = `"edges":[{"node":{"code":"`
)

var operations = []operation{
	{name: "hot", title: "redirect, from memory", turns: 30_000, defers: true,
		link: func(_ shape, turn int, drawn []int) int { return drawn[turn%len(drawn)] }},
	{name: "look", title: "resolve (`HEAD`), not in memory", link: shape.cold, resolves: true, once: true},
	{name: "cold", title: "redirect, not in memory", link: shape.cold, once: true, defers: true},
	{name: "create", title: "`createLink`, a new URL", defers: true, document: createDocument,
		expected: `"created":true`, variables: newLink},
	{name: "known", title: "`createLink`, a known URL", document: createDocument, expected: `"created":false`,
		variables: knownLink},
	{name: "large", title: "a page of 20, the largest workspace", document: pageDocument, expected: found,
		variables: func(s shape, _ int) map[string]any { return map[string]any{"workspace": s.workspaceID(0)} }},
	{name: "small", title: "a page of 20, a small workspace", document: pageDocument, expected: found,
		variables: func(s shape, turn int) map[string]any {
			return map[string]any{"workspace": s.workspaceID(1 + turn%(s.queried()-1))}
		}},
	{name: "word", title: "search: a word of 20 links", document: pageDocument, expected: found,
		variables: func(s shape, _ int) map[string]any { return search(s, rareWord) }},
	{name: "serial", title: "search: 8 digits of a URL", document: pageDocument, expected: found,
		variables: func(s shape, turn int) map[string]any { // of one link, in an order that no other has
			return search(s, fmt.Sprintf("%08d", serial(s.linkOf(0, scattered(turn, s.size(0))))))
		}},
	{name: "stats", title: "stats of a link, 30 days", document: statsDocument, expected: `"series":[{"start":"`,
		variables: statsOfLink},
}

// sweep resolves each hot link once, so that a node caches it. follow follows links in the same
// order, so that a node holds hits of their monthly quotas.
var (
	sweep = operation{name: "sweep", resolves: true, once: true,
		link: func(s shape, turn int, _ []int) int { return s.colds() + turn }}
	follow = operation{name: "follow", once: true, defers: true, link: sweep.link}
)

func operationNamed(name string) operation {
	at := slices.IndexFunc(operations, func(o operation) bool { return o.name == name })
	if at < 0 {
		rig.Failf("there is no operation %q", name)
	}
	return operations[at]
}

func newLink(s shape, turn int) map[string]any {
	return linkInput(s.workspaceID(turn%s.queried()),
		"https://www.example.com/news/"+rig.NumberPlace+"/a-title-of-some-words")
}

// knownLink is one that has existed from the beginning.
func knownLink(s shape, turn int) map[string]any {
	w := turn % s.queried()
	return linkInput(s.workspaceID(w), urlOf(s.linkOf(w, scattered(turn/s.queried(), s.size(w)))))
}

func linkInput(workspace, url string) map[string]any {
	return map[string]any{"input": map[string]any{"workspaceId": workspace, "url": url, "title": "A page of the news"}}
}

func search(s shape, word string) map[string]any {
	return map[string]any{"workspace": s.workspaceID(0), "filter": map[string]any{"search": word}}
}

// statsOfLink takes turns with hot links of the largest workspace.
func statsOfLink(s shape, turn int) map[string]any {
	const several = 50
	first := (s.colds() + largest - 1) / largest
	return map[string]any{"id": s.linkID(s.linkOf(0, first+turn%min(several, s.size(0)-first)))}
}

// request is that of a turn, as rig.Load takes it.
func (o operation) request(s shape, turn int, drawn []int) string {
	if o.link == nil {
		return string(rig.Must(json.Marshal(map[string]any{"query": o.document, "variables": o.variables(s, turn)})))
	}
	method := ""
	if o.resolves {
		method = "?"
	}
	return method + "/" + rig.Code(o.link(s, turn, drawn))
}

const (
	// drawnVisits is how many visits are drawn: a burst that has more repeats them.
	drawnVisits = 1 << 17
	// maxOnce bounds the requests of a burst that are each sent once; a warmPart-th as many come
	// before it.
	maxOnce  = 10_000
	warmPart = 10
)

// figures are those of a burst and, for an operation, including background work of the nodes:
// PostgreSQL's transactions, the blocks that it read, and of those the ones not in its memory, the
// KiB that it logged, and Redis commands.
type figures struct {
	rig.Figures
	transactions, blocks, reads, log, commands float64
}

// takeTurns measures all operations at all sizes, size after size, after the constant handler.
func (b *bench) takeTurns(operations string, columns []*column) (constant []figures) {
	for round := range *rounds {
		b.Say("round %d of %d", round+1, *rounds)
		base, _, _ := b.Measure(rig.Target{Name: "constant", Own: []int{b.constant.PID}}, *warmUp, rig.Load{
			Address: b.constant.Address, Requests: func(int) string { return "/" }, N: 16, Connections: *connections,
			Burst: *burst, Status: 302,
		})
		constant = append(constant, figures{Figures: base})
		for _, name := range wanted(operations) {
			op := operationNamed(name)
			b.Say("%s", op.title)
			for _, c := range columns {
				c.measured[name] = append(c.measured[name], b.measure(op, c, uint64(round)))
			}
		}
	}
	return constant
}

// drive sends one load to each node at once.
func (b *bench) drive(op operation, c *column, from, turns int, warm bool, seed uint64) (all rig.Outcome) {
	const numbersOfNode = 1_000_000_000 // so that numbers of new links do not overlap
	outcomes := make([]rig.Outcome, len(c.nodes))
	var loads []func()
	for i, n := range c.nodes {
		share := turns / len(c.nodes)
		var drawn []int
		if op.link != nil && !op.once {
			drawn = c.draw(drawnVisits, seed+uint64(i))
		}
		l := rig.Load{Address: n.Address, Token: c.tenant.Token, Connections: max(1, *connections/len(c.nodes)),
			Status: http.StatusOK, Expected: op.expected, First: b.next + i*numbersOfNode, N: share,
			Requests: func(turn int) string { return op.request(c.shape, from+i*share+turn, drawn) }}
		if op.link != nil {
			l.Status = http.StatusFound
		}
		if turns == 0 {
			l.N, l.Burst = drawnVisits/8, *burst
		}
		if turns == 0 && warm {
			l.Burst = *warmUp
		}
		loads = append(loads, func() { outcomes[i] = b.Drive(op.name+", "+c.title, l) })
	}
	rig.Parallel(loads...)
	next := b.next
	for _, o := range outcomes {
		all.Right, all.Took = all.Right+o.Right, max(all.Took, o.Took)
		all.P50, all.P99 = max(all.P50, o.P50), max(all.P99, o.P99)
		next = max(next, o.Next%numbersOfNode)
	}
	b.next = next
	return all
}

// measure drives the nodes of a column for one burst after a warm-up, deferred work included.
func (b *bench) measure(op operation, c *column, round uint64) figures {
	turns, from := op.turns, b.turn
	b.turn += 2 * drawnVisits // so that no two bursts are about the same links
	if op.once {              // enough links for all bursts
		turns, from = max(1, min(maxOnce, c.colds()*warmPart/(warmPart+1)/(2**rounds)-1)), c.cold
	}
	warm := turns / warmPart
	if turns > 0 {
		warm = max(warm, len(c.nodes))
	}
	b.drive(op, c, from, warm, true, round)
	b.rest(op, c)
	if op.once {
		from += warm
		c.cold = from + turns
	} else {
		from += drawnVisits
	}
	before, used := b.count(c), rig.Used(b.target(c))
	o := b.drive(op, c, from, turns, false, round+1<<32)
	b.rest(op, c)
	used = rig.Used(b.target(c)).Since(used)
	var each [5]float64
	for i, n := range b.count(c) {
		each[i] = float64(n-before[i]) / float64(max(o.Right, 1))
	}
	return figures{rig.FiguresOf(o, used), each[0], each[1], each[2], each[3] / 1024, each[4]}
}

// count returns the counters of PostgreSQL and Redis, in the order of figures.
func (b *bench) count(c *column) (n [5]int64) {
	b.In(c.databaseURL, false, func(d *sql.DB) {
		rig.Check(d.QueryRowContext(b, `SELECT xact_commit + xact_rollback, blks_hit + blks_read, blks_read,
			(SELECT wal_bytes::BIGINT FROM pg_stat_wal) FROM pg_stat_database WHERE datname = current_database()`).
			Scan(&n[0], &n[1], &n[2], &n[3]))
	})
	info := rig.Must(b.Redis.InfoMap(b, "stats").Result())
	n[4] = rig.Must(strconv.ParseInt(info["Stats"]["total_commands_processed"], 10, 64))
	return n
}

const (
	// maxHot is the number of links that every node caches, maxFollowed the number of links that
	// are followed repeatedly.
	maxHot      = 20_000
	maxFollowed = 1000
	// maxQueried is the number of workspaces that operations use.
	maxQueried = 1000
	// rareLinks of the largest workspace have a word that no other link has.
	rareLinks = 20
	rareWord  = "zebrafish"
	// largest is the divisor of the links that workspace 0 has; the others share the rest equally.
	largest = 10
)

// shape determines the contents of a database. IDs contain its number, so that no two databases
// share a key of Redis.
type shape struct{ Number, Links, Tenants int }

func (s shape) id(prefix string, n int) string {
	return fmt.Sprintf("%s_00%04x%020x", prefix, s.Number, n)
}
func (s shape) linkID(link int) string   { return s.id("lnk", link) }
func (s shape) workspaceID(n int) string { return s.id("ws", n) }

// home returns the workspace of a link.
func (s shape) home(link int) int {
	if link%largest == 0 {
		return 0
	}
	return 1 + (link/largest*(largest-1)+link%largest-1)%(s.Tenants-1)
}

// size returns the number of links of a workspace.
func (s shape) size(workspace int) int {
	ofLargest := (s.Links + largest - 1) / largest
	if workspace == 0 {
		return ofLargest
	}
	rest, others := s.Links-ofLargest, s.Tenants-1
	return (rest + others - workspace) / others
}

// linkOf returns a link of a workspace, whose index is from 0 to below its size.
func (s shape) linkOf(workspace, index int) int {
	if workspace == 0 {
		return index * largest
	}
	turn := workspace - 1 + index*(s.Tenants-1)
	return turn/(largest-1)*largest + turn%(largest-1) + 1
}

func (s shape) queried() int  { return min(s.Tenants, maxQueried) }
func (s shape) hot() int      { return min(s.Links/5, maxHot) } // the newest links
func (s shape) followed() int { return min(s.hot(), maxFollowed) }
func (s shape) colds() int    { return s.Links - s.hot() }

// scattered returns each index below n once in n turns, in no order: the factor is prime.
func scattered(turn, n int) int { return int(uint64(turn%n) * 2_654_435_761 % uint64(n)) }

// cold returns each link that is not hot once.
func (s shape) cold(turn int, _ []int) int { return scattered(turn, s.colds()) }

// draw draws hot links by a Zipf distribution.
func (s shape) draw(n int, seed uint64) []int {
	rank := rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), rig.Skew, 1, uint64(s.followed()-1))
	visits := make([]int, n)
	for i := range visits {
		visits[i] = s.colds() + scattered(int(rank.Uint64()), s.followed())
	}
	return visits
}

// serial returns a number of eight digits that no other link has.
func serial(link int) int { return int(uint64(link) * 61_803_399 % 100_000_000) }

// urlOf returns the destination of a link, in canonical form.
func urlOf(link int) string {
	return fmt.Sprintf("https://www.example.com/articles/%08d/a-title-of-some-words", serial(link))
}

// titleOf returns a link's title. Those with the rare word are spread over the largest workspace's.
func (s shape) titleOf(link int) string {
	every := s.size(0) / rareLinks * largest
	if link%every == 0 && link/every < rareLinks {
		return "A " + rareWord + " of the catalogue"
	}
	return "A page of the catalogue"
}

// dataset is a database of a shape.
type dataset struct {
	shape
	databaseURL string
	disk        map[string]float64 // bytes a link: of the table, and of each index
	tenant      *rig.Tenant        // an owner of the workspaces that are queried; nil before the first server
}

// guarded are the tables whose rows not even their owner sees, which COPY does not fill therefore.
var guarded = []string{"workspaces", "slugs", "members", "links"}

// fill migrates the database, and fills it. Indexes and constraints are dropped meanwhile, and
// created again.
func (b *bench) fill(d *dataset) {
	began := time.Now()
	rig.Must(b.Linkforge([]string{"LINKFORGE_DATABASE_URL=" + d.databaseURL}, "migrate", "up"))
	var drop, restore []string
	for _, table := range guarded {
		drop = append(drop, "ALTER TABLE "+table+" NO FORCE ROW LEVEL SECURITY")
		restore = append(restore, "ALTER TABLE "+table+" FORCE ROW LEVEL SECURITY")
	}
	for _, r := range rig.Rows[struct{ Drop, Restore string }](b.Run, d.databaseURL, `
		SELECT format('ALTER TABLE links DROP CONSTRAINT %I', conname),
			format('ALTER TABLE links ADD CONSTRAINT %I %s %s',
			conname, pg_get_constraintdef(oid), CASE contype WHEN 'f' THEN 'NOT VALID' END)
		FROM pg_constraint WHERE conrelid = 'links'::regclass AND contype IN ('u', 'f')
		UNION ALL
		SELECT format('DROP INDEX %I', indexname), indexdef FROM pg_indexes
		WHERE tablename = 'links' AND indexname NOT IN (SELECT conname FROM pg_constraint)`) {
		drop, restore = append(drop, r.Drop), append(restore, r.Restore)
	}
	b.Exec(d.databaseURL, append(drop, d.workspaces()...)...)
	b.Copy(d.databaseURL, "TRUNCATE links, link_tags", "links", []string{"id", "workspace_id", "code", "root_code",
		"strategy", "original_url", "canonical_url", "canonical_hash", "title", "title_key", "search",
		"redirect_status",
		"created_by", "created_at", "updated_at", "check_at"}, d.Links, d.row)
	restore = append([]string{"SET maintenance_work_mem = '1GB'"}, restore...)
	b.Exec(d.databaseURL, append(restore, "RESET maintenance_work_mem", "VACUUM ANALYZE")...)
	d.disk = map[string]float64{}
	for _, r := range rig.Rows[struct {
		Name string
		Size int64
	}](b.Run, d.databaseURL, `SELECT 'table', pg_table_size('links') UNION ALL
		SELECT 'index ' || indexrelid::regclass::text, pg_relation_size(indexrelid) FROM pg_index
		WHERE indrelid = 'links'::regclass`) {
		d.disk[r.Name] = float64(r.Size) / float64(d.Links)
	}
	b.Say("%s links in %s workspaces are inserted after %.0f s", thousands(d.Links), thousands(d.Tenants),
		time.Since(began).Seconds())
}

// createdAt is when all rows were created.
var createdAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// workspaces inserts the workspaces, each with an owner of its own.
func (d *dataset) workspaces() (statements []string) {
	id := func(prefix string) string {
		return fmt.Sprintf("'%s_00%04x' || lpad(to_hex(n), 20, '0')", prefix, d.Number)
	}
	words := strings.NewReplacer("{owner}", id("usr"), "{workspace}", id("ws"),
		"{at}", "'"+createdAt.Format(time.RFC3339)+"'::timestamptz",
		"{numbers}", fmt.Sprintf("generate_series(0, %d) AS n", d.Tenants-1))
	for _, statement := range []string{
		`INSERT INTO accounts (id, email, name, password_hash, created_at, updated_at)
			SELECT {owner}, 'owner-' || n || '@example.com', 'Owner', '', {at}, {at} FROM {numbers}`,
		`INSERT INTO workspaces (id, slug, name, created_at, updated_at)
			SELECT {workspace}, 'team-' || n, 'Team ' || n, {at}, {at} FROM {numbers}`,
		`INSERT INTO slugs (slug, workspace_id, created_at) SELECT 'team-' || n, {workspace}, {at} FROM {numbers}`,
		`INSERT INTO members (workspace_id, account_id, role, created_at)
			SELECT {workspace}, {owner}, 'OWNER', {at} FROM {numbers}`,
		`TRUNCATE changes`, // no node needs to read the slugs
	} {
		statements = append(statements, words.Replace(statement))
	}
	return statements
}

// row is a link as Linkforge would have written it.
func (d *dataset) row(link int) []any {
	home, code, url, title := d.home(link), rig.Code(link), urlOf(link), d.titleOf(link)
	hash, key := sha256.Sum256([]byte(url)), strings.ToLower(title)
	search := strings.Join([]string{key, "", url, strings.ToLower(code)}, "\n")
	return []any{d.linkID(link), d.workspaceID(home), code, code, "DETERMINISTIC", url, url, hash[:], title, key,
		search,
		int32(302), d.id("usr", home), createdAt, createdAt, createdAt}
}

// join registers an account once, and makes it an owner of the workspaces that are queried.
func (b *bench) join(d *dataset, address string) {
	if d.tenant != nil {
		return
	}
	d.tenant = b.NewTenant(address, "scale", &http.Transport{})
	b.In(d.databaseURL, true, func(in *sql.DB) {
		rig.Must(in.ExecContext(b, `INSERT INTO members (workspace_id, account_id, role, created_at)
			SELECT w.id, m.account_id, 'OWNER', m.created_at FROM workspaces w, members m
			WHERE m.workspace_id = $1 AND w.id <> $1 AND w.id <= $2 AND w.id LIKE 'ws_00%'`,
			d.tenant.Workspace, d.workspaceID(d.queried()-1)))
	})
}
