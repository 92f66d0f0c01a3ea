// Command graphql compares the cost of operations with their lower bounds: the same document on a
// bare gqlgen handler over the same schema, whose resolvers return constants; the same SQL sent by
// pgbench; and, for creations, that handler with an INSERT into a table of the same columns and
// indexes. All targets are measured in one run, in turns, because machines differ and are shared:
// quote the ratios.
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./graphql -rounds 1 -burst 1s
//
// Linkforge has everything on but destination checks, which would query the internet; rate limits
// count and never refuse. It exits with 1 after a wrong response, or when the links do not add up.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	rounds      = flag.Int("rounds", 3, "number of bursts of each target and operation")
	burst       = flag.Duration("burst", 2*time.Second, "duration of a burst")
	connections = flag.Int("connections", 64, "number of connections")
	opNames     = flag.String("operations", "me,page,create,create16", "operations, separated by commas")
	details     = flag.String("details", "",
		"a folder for the recorded SQL, and CPU profiles of Linkforge from another "+
			"burst of each operation")
)

func main() { rig.Main(run, rig.Helpers{"bare": serveBare}) }

// operation is a GraphQL operation under measurement.
type operation struct {
	name, title, document string
	expected              string // part of every right response, and of no other
	creates               bool   // each response is a new link
	workspaces            []string
	sql                   string // for pgbench; empty for creations
}

const (
	meDocument   = `{ me { id email } }`
	pageDocument = `query Page($workspace: ID!) {
  workspace(by: {id: $workspace}) {
    links(first: 20) {
      edges {
        node { code shortUrl originalUrl title tags clickCount status createdAt createdBy { name } }
      }
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
	pageSize   = 20
	newURL     = "https://www.example.com/articles/" + rig.NumberPlace + "/a-title-of-some-words"
	newTitle   = "A title of some words"
	warmUpTime = 500 * time.Millisecond
)

// bodies returns the requests of an operation, one for each workspace.
func (o operation) bodies() (all []string) {
	for _, workspace := range o.workspaces {
		variables := map[string]any{"workspace": workspace}
		if o.creates {
			variables = map[string]any{"input": map[string]any{"workspaceId": workspace, "url": newURL,
				"title": newTitle}}
		}
		all = append(all, string(rig.Must(json.Marshal(map[string]any{"query": o.document, "variables": variables}))))
	}
	return all
}

// The links of the listed page, which the account of the run has created.
func listedURL(n int) string {
	return fmt.Sprintf("https://www.example.com/catalogue/%06d/a-page-of-some-words?utm_source=newsletter", n)
}
func listedTitle(n int) string  { return fmt.Sprintf("A page of some words, number %06d", n) }
func listedTags(n int) []string { return []string{fmt.Sprintf("season-%02d", n%20), "spring sale"} }

type bench struct {
	*rig.Run
	bare, ours, sql *target
	bounds          []*target // the bare handler with a table for new links
	tenant          *rig.Tenant
	operations      []*operation
	admin           string // where Linkforge serves its profiles
	next            int    // the number of the next request
	// created is the number of links that were acknowledged or created beforehand.
	created int64
}

// target is a server that is measured.
type target struct {
	rig.Target
	address, token string
	figures        map[string][]rig.Figures // by operation, one a round
}

func newTarget(name string, p *rig.Process, beside []int) *target {
	t := &target{Target: rig.Target{Name: name, Beside: beside}, figures: map[string][]rig.Figures{}}
	if p != nil {
		t.Own, t.address = []int{p.PID}, p.Address
	}
	return t
}

func run(r *rig.Run) {
	r.OpenServices()
	b := &bench{Run: r}
	b.prepare()
	for _, o := range b.operations {
		b.compare(o)
	}
	b.record()
	for round := range *rounds {
		b.Say("round %d of %d", round+1, *rounds)
		b.Exec(b.DatabaseURL, "VACUUM ANALYZE") // now, and not while something is measured
		for _, o := range b.operations {
			for _, t := range b.targetsOf(o) {
				b.measure(t, o)
			}
			if o.sql != "" {
				b.sql.figures[o.name] = append(b.sql.figures[o.name], b.measureSQL(o.sql))
			}
		}
	}
	if *details != "" {
		b.profile()
	}
	b.report()
}

// prepare starts everything, and creates the workspaces and links.
func (b *bench) prepare() {
	b.admin = rig.FreeAddress()
	env := append(b.ServicesEnv(), "LINKFORGE_ADMIN_LISTEN="+b.admin, "LINKFORGE_RATE_LIMITS=on",
		"LINKFORGE_REQUEST_RATE="+rig.Unlimited, "LINKFORGE_COST_RATE="+rig.Unlimited)
	b.ours = newTarget("Linkforge on PostgreSQL + Redis", b.Serve("linkforge", b.Server, env...), b.ServicePIDs)
	b.sql = newTarget("the same SQL by pgbench", nil, nil)
	b.tenant = b.NewTenant(b.ours.address, "listed", &http.Transport{})
	b.ours.token = b.tenant.Token
	workspaces := []string{b.tenant.Workspace}
	for n := range 17 {
		workspaces = append(workspaces, b.tenant.CreateWorkspace(fmt.Sprintf("bench-%d", n+1)))
	}
	for _, w := range workspaces {
		b.fill(w)
	}
	b.Exec(b.DatabaseURL, "CREATE TABLE "+leastTable+" (LIKE links INCLUDING ALL)")
	database := []string{bareDatabase + "=" + b.DatabaseURL}
	b.bare = newTarget("gqlgen over net/http, constants", b.Helper("bare", nil, "bare", "alone"), nil)
	b.bounds = []*target{
		newTarget("gqlgen over net/http, one INSERT a request", b.Helper("bare-alone", database, "bare", "alone"),
			b.ServicePIDs),
		newTarget("gqlgen over net/http, one INSERT for all waiting requests of a workspace",
			b.Helper("bare-batched", database, "bare", "batched"), b.ServicePIDs),
	}
	all := []*operation{
		{name: "me", title: "`me { id email }`", document: meDocument, expected: `"me":{"id":"usr_`,
			workspaces: workspaces[:1]},
		{name: "page", title: "a page of 20 links", document: pageDocument, expected: `"edges":[{"node":{"code":"`,
			workspaces: workspaces[:1]},
		{name: "create", title: "`createLink`, one workspace", document: createDocument, expected: `"created":true`,
			creates: true, workspaces: workspaces[1:2]},
		{name: "create16", title: "`createLink`, 16 workspaces", document: createDocument, expected: `"created":true`,
			creates: true, workspaces: workspaces[2:]},
	}
	for name := range strings.SplitSeq(*opNames, ",") {
		at := slices.IndexFunc(all, func(o *operation) bool { return o.name == name })
		if at < 0 {
			rig.Failf("there is no operation %q", name)
		}
		b.operations = append(b.operations, all[at])
	}
}

// fill creates links in a workspace. Each workspace has many, so that PostgreSQL does not plan for
// one that has all links.
func (b *bench) fill(workspace string) {
	const listed = 500
	b.tenant.In(workspace).Fill(listed, listed/2, 1, func(n int) map[string]any {
		return map[string]any{"url": listedURL(n), "title": listedTitle(n), "tags": listedTags(n)}
	})
	b.created += listed
}

func (b *bench) targetsOf(o *operation) []*target {
	if o.creates {
		return append([]*target{b.bare, b.ours}, b.bounds...)
	}
	return []*target{b.bare, b.ours}
}

// compare checks that all targets respond to an operation in the same shape, and in the same length
// within 5 %.
func (b *bench) compare(o *operation) {
	var first []byte
	for _, t := range b.targetsOf(o) {
		tenant := b.tenant.At(t.address)
		body := strings.Replace(o.bodies()[0], rig.NumberPlace, fmt.Sprintf("%0*d", len(rig.NumberPlace), b.next), 1)
		response := rig.Must(tenant.Post(body))
		b.next++
		if t == b.bare {
			first = response
		}
		length, difference := float64(len(first)), float64(len(response)-len(first))
		if !reflect.DeepEqual(shapeOf(first), shapeOf(response)) || max(difference, -difference) > 0.05*length {
			rig.Failf("%s, %s: the responses differ:\n%s\n%s", t.Name, o.name, first, response)
		}
	}
	if o.creates {
		b.created++
	}
}

// shapeOf replaces all texts and numbers of a JSON value with their types.
func shapeOf(text []byte) any {
	var value any
	rig.Check(json.Unmarshal(text, &value))
	var shape func(any) any
	shape = func(value any) any {
		switch value := value.(type) {
		case map[string]any:
			for name, of := range value {
				value[name] = shape(of)
			}
		case []any:
			for i, of := range value {
				value[i] = shape(of)
			}
		case nil:
		default:
			return fmt.Sprintf("%T", value)
		}
		return value
	}
	return shape(value)
}

func (b *bench) load(t *target, o *operation, burst time.Duration) rig.Load {
	bodies := o.bodies()
	return rig.Load{Address: t.address, Token: t.token, N: 16 * len(bodies), Connections: *connections, Burst: burst,
		Requests: func(i int) string { return bodies[i%len(bodies)] }, Status: 200, Expected: o.expected, First: b.next}
}

func (b *bench) measure(t *target, o *operation) {
	f, outcome, before := b.Measure(t.Target, warmUpTime, b.load(t, o, *burst))
	b.next = max(b.next, outcome.Next)
	if t == b.ours && o.creates {
		b.created += before.Right + outcome.Right
	}
	t.figures[o.name] = append(t.figures[o.name], f)
}

// profile writes the recorded SQL, and a CPU profile of Linkforge under each operation.
func (b *bench) profile() {
	rig.Check(os.MkdirAll(*details, 0o755))
	for _, o := range b.operations {
		b.Say("a profile of %s", o.name)
		file := filepath.Join(*details, o.name)
		if o.sql != "" {
			rig.Check(os.WriteFile(file+".sql", []byte(o.sql), 0o600))
		}
		length := max(*burst, 2*time.Second).Round(time.Second)
		rig.Parallel(func() {
			text := b.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", b.admin, length.Seconds()))
			rig.Check(os.WriteFile(file+".pprof", text, 0o600))
		}, func() {
			outcome := b.Drive(b.ours.Name, b.load(b.ours, o, length))
			if b.next = max(b.next, outcome.Next); o.creates {
				b.created += outcome.Right
			}
		})
	}
}

// report prints everything in Markdown.
func (b *bench) report() {
	fmt.Printf("%d connections, %d rounds of %s, %s. Medians, with the least and the most.\n", *connections, *rounds,
		*burst, rig.Machine())
	columns := []struct {
		format string
		of     func(rig.Figures) float64
	}{
		{"%.0f", rate}, {"%.0f", rig.Figures.CPU}, {"%.0f", func(f rig.Figures) float64 { return f.Beside }}, {"%.2f",
			p50},
		{"%.2f", func(f rig.Figures) float64 { return f.P99 }}, {"%.0f",
			func(f rig.Figures) float64 { return f.Bytes }},
	}
	for _, o := range b.operations {
		rows := [][]string{{o.title, "requests/s", "CPU µs", "PostgreSQL + Redis", "p50 ms", "p99 ms", "bytes"}}
		for _, t := range append(b.targetsOf(o), b.sql) {
			if len(t.figures[o.name]) == 0 {
				continue
			}
			row := []string{t.Name}
			for _, c := range columns {
				row = append(row, rig.Spread(t.figures[o.name], c.format, c.of))
			}
			rows = append(rows, row)
		}
		rig.Table(rows...)
	}
	b.ReportMachine()
	found := b.Number(b.DatabaseURL, "SELECT count(*) FROM links")
	fmt.Printf("- Links created: %d in the database, %d acknowledged.\n", found, b.created)
	if found != b.created {
		b.Wrongf("links in the database %d, acknowledged %d", found, b.created)
	}
	for _, o := range b.operations {
		b.reportRatios(o)
	}
}

func p50(f rig.Figures) float64  { return f.P50 }
func rate(f rig.Figures) float64 { return f.Rate }

// ratios divides a figure of one target by the sum of others', round by round.
func ratios(o *operation, of func(rig.Figures) float64, one *target, others ...*target) (all []float64) {
	for i, f := range one.figures[o.name] {
		sum := 0.0
		for _, t := range others {
			sum += of(t.figures[o.name][i])
		}
		all = append(all, of(f)/sum)
	}
	return all
}

// reportRatios compares a query with the bare handler and the same SQL together, and a creation
// with the bare handler.
func (b *bench) reportRatios(o *operation) {
	if !o.creates {
		fmt.Printf("- %s: %s × the CPU time of the bare handler and the same SQL together, %s × the p50.\n", o.title,
			rig.Spread(ratios(o, rig.Figures.CPU, b.ours, b.bare, b.sql), "%.2f", rig.Same),
			rig.Spread(ratios(o, p50, b.ours, b.bare, b.sql), "%.2f", rig.Same))
		return
	}
	for _, t := range append([]*target{b.ours}, b.bounds...) {
		fmt.Printf("- %s, %s: %s of the bare handler's requests a second.\n", o.title, t.Name,
			rig.Spread(ratios(o, rate, t, b.bare), "%.2f", rig.Same))
	}
}
