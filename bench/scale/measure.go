package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/linkforge/linkforge/bench/internal/rig2"
)

// operation is what is measured on a dataset.
type operation struct {
	name, title string
	// link returns the link to follow in a turn, by GET, or by HEAD if the operation only resolves. It
	// is nil for GraphQL.
	link     func(s shape, turn int, drawn []int) int
	resolves bool
	// once means that each request is about a link of its own: a burst is a number of requests.
	once bool
	// turns is the number of requests of a burst; zero for most, whose bursts have a duration.
	turns int
	// defers means that there is work to do after the response.
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

func operations() []operation {
	cold := func(s shape, turn int, _ []int) int { return s.cold(turn) }
	return []operation{
		{name: "hot", title: "redirect, from memory", turns: 30_000, defers: true,
			link: func(_ shape, turn int, drawn []int) int { return drawn[turn%len(drawn)] }},
		{name: "look", title: "resolve (`HEAD`), not in memory", link: cold, resolves: true, once: true},
		{name: "cold", title: "redirect, not in memory", link: cold, once: true, defers: true},
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
}

// sweep resolves each hot link once, so that a node caches it. follow follows links in the same
// order, so that a node holds hits of their monthly quotas.
var (
	sweep = operation{name: "sweep", resolves: true, once: true,
		link: func(s shape, turn int, _ []int) int { return s.colds() + turn }}
	follow = operation{name: "follow", once: true, defers: true, link: sweep.link}
)

func operationNamed(name string) operation {
	for _, o := range operations() {
		if o.name == name {
			return o
		}
	}
	rig.Failf("there is no operation %q", name)
	return operation{}
}

func operationNames() (names []string) {
	for _, o := range operations() {
		names = append(names, o.name)
	}
	return names
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
func (b *bench) takeTurns(names []string, columns []*column) (constant []figures) {
	for round := range *rounds {
		b.Say("round %d of %d", round+1, *rounds)
		base, _, _ := b.Measure(rig.Target{Name: "constant", Own: []int{b.constant.PID}}, *warmUp, rig.Load{
			Address: b.constant.Address, Requests: func(int) string { return "/" }, N: 16, Connections: *connections,
			Burst: *burst, Status: 302,
		})
		constant = append(constant, figures{Figures: base})
		for _, name := range names {
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
