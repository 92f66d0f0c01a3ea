// Command cluster drills the layout of production on one machine: PostgreSQL with a standby, a
// Redis Cluster of three masters with a replica each, PgBouncer, three Linkforge nodes, and nginx
// in front of them as docs/deploy/nginx.conf has it. Under a constant load it replaces the nodes
// one after the other, kills a master of Redis, kills the PostgreSQL primary, and checks the
// promises of docs/OPERATIONS.md. It exits with 1 when one is broken. Everything is on loopback, in
// a temporary folder; when root starts it, servers run as an unprivileged user.
//
// After the promotion PgBouncer is pointed at the new primary, as a failover tool does. With
// -direct, nodes find the primary themselves, by both hosts in their URL.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	phaseNames = flag.String("phases", "restart,redis,postgres",
		"what is drilled, separated by commas; empty for nothing")
	linkCount = flag.Int("links", 200, "number of links that are followed")
	rate      = flag.Int("rate", 300, "visits a second")
	creates   = flag.Int("creates", 20, "calls of createLink a second")
	quota     = flag.Int("quota", 600, "monthly quota of the link whose quota is used up")
	notice    = flag.Duration("notice", 2*time.Second, "time from the primary's death to the promotion of its standby")
	drain     = flag.Duration("drain", 3*time.Second, "LINKFORGE_DRAIN_DELAY of the nodes")
	direct    = flag.Bool("direct", false, "without PgBouncer: nodes name both PostgreSQL hosts")
	stay      = flag.Bool("stay", false, "keep everything running after the drill, until Ctrl-C")
)

const (
	batch = 100 // links of a call
	// calm is the duration of phases without faults. settleTime is the pause after a node or server
	// has restarted: nginx retries it after two seconds.
	calm       = 8 * time.Second
	settleTime = 3 * time.Second
	// quotaQuiet is how long the limited link has had no redirect when its quota counts as used up:
	// nodes return leased hits within that time.
	quotaQuiet = 4 * time.Second
	// creationsBack is how soon after the promotion a link must be created.
	creationsBack = 15 * time.Second
	// redirectsBack is how soon after the death of a Redis master all links must be redirected:
	// until a replica takes its place, no hits are granted.
	redirectsBack = 5 * time.Second
)

// The phases of the report.
const (
	nameCalm     = "calm"
	nameRestart  = "rolling restart"
	nameRedis    = "a Redis master dies"
	namePostgres = "the PostgreSQL primary dies"
	nameRejoin   = "it comes back as standby"
)

func main() {
	rig.Main(func(r *rig.Run) {
		if *linkCount < 1 || *linkCount > 1000 || *rate < visitors || *creates < creators || *quota < 1 {
			rig.Failf("1 to 1000 links, %d visits, %d creations a second and a quota of 1 are the least", visitors,
				creators)
		}
		d := &drill{layout: &layout{Run: r}, book: newBook()}
		d.start()
		defer d.stopNodes()
		d.prepare()
		if *phaseNames != "" {
			d.run()
			d.report()
		}
		if *stay {
			d.describe()
			<-r.Done()
		}
	}, nil)
}

// stopNodes stops all nodes at once, before anything that they depend on.
func (l *layout) stopNodes() {
	var all []func()
	for _, n := range l.nodes {
		all = append(all, n.Stop)
	}
	rig.Parallel(all...)
}

type drill struct {
	*layout
	*book
	tenant  *rig.Tenant
	links   []rig.Link // that are followed all the time
	limited rig.Link
	stops   []func() // of the load

	// redisBack is the time from the master's death until all nodes reached Redis again,
	// redisNoticed whether any noticed the death.
	redisBack    time.Duration
	redisNoticed bool
	limitedSeen  int
	// promotedAfter and createdAfter count from the primary's death to the promotion and to the
	// first link created.
	promotedAfter, createdAfter time.Duration
}

// prepare creates the account, the workspaces and the links.
func (d *drill) prepare() {
	d.tenant = d.NewTenant("https://"+d.public, "drill", &http.Transport{TLSClientConfig: &tls.Config{RootCAs: d.roots},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == d.public { // localhost may have other addresses
				address = d.proxy.Address
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}})
	for _, created := range d.tenant.Fill(*linkCount, batch, 1, func(i int) map[string]any {
		return map[string]any{"url": rig.URLOf(i)}
	}) {
		d.links = append(d.links, created.Link)
	}
	workspace := d.tenant.CreateWorkspace("drill-limited")
	rig.Must(d.Linkforge(d.nodes[0].Env, "workspaces", "limits", "drill-limited", "--hits", strconv.Itoa(*quota)))
	d.limited = rig.Must(d.tenant.In(workspace).CreateLink("https://example.com/limited")).Link
}

func (d *drill) begin(name string) {
	d.enter(name)
	d.Say("%s", name)
}

// run is the drill itself.
func (d *drill) run() {
	d.begin(nameCalm)
	d.startLoad()
	defer d.stopLoad()
	d.Pause(calm)
	for phase := range strings.SplitSeq(*phaseNames, ",") {
		switch phase {
		case "restart":
			d.replaceNodes()
		case "redis":
			d.killRedis()
		case "postgres":
			d.killPostgres()
		default:
			rig.Failf("there is no phase %q", phase)
		}
	}
	d.stopLoad()
	d.Say("the load has ended: counting")
}

// replaceNodes stops and starts the nodes, one after the other.
func (d *drill) replaceNodes() {
	d.begin(nameRestart)
	for _, n := range d.nodes {
		stopped := d.Timed("stopping "+n.Name, n.Stop)
		started := d.Timed("starting "+n.Name, func() { d.runNode(n) })
		d.Say("%s stopped in %s, and was ready %s later", n.Name, seconds(stopped), seconds(started))
		d.Pause(settleTime)
	}
}

// killRedis kills the master that counts the limited link's hits when half of them are used, and
// follows the link until its quota is used up.
func (d *drill) killRedis() {
	d.begin(nameRedis)
	const limitedVisitors, limitedRate = 6, 60
	stop := repeat(limitedVisitors, limitedRate, func(int) { d.visit(limitedVisits, d.limited) })
	defer stop()
	seen := func() int { return d.visitsOf(d.limited.ID).seen }
	d.Await("half of the quota is used", func() bool { return seen() >= *quota/2 })
	victim := d.masterOf("links:{" + d.limited.ID + "}")
	victim.Kill()
	died := time.Now()
	d.Say("%s is dead", victim.Name)
	last := died // time at which a node did not reach Redis, or was down
	d.Await("all nodes reach Redis again", func() bool {
		for _, n := range d.nodes {
			if up, ok := d.Metric(n.admin, "linkforge_redis_up"); !ok || up != 1 {
				last, d.redisNoticed = time.Now(), true
			}
		}
		return time.Since(last) > 3*nodeTimeout
	})
	d.redisBack = last.Sub(died)
	before, since := seen(), time.Now()
	d.Await("the quota is used up", func() bool {
		if now := seen(); now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > quotaQuiet
	})
	stop()
	d.limitedSeen = seen()
	d.rejoinRedis(victim)
	d.Pause(settleTime)
}

// killPostgres kills the primary, promotes the standby, and makes the old primary its standby.
func (d *drill) killPostgres() {
	d.begin(namePostgres)
	for _, n := range d.nodes { // each node has each link in memory, and knows its hits
		for _, l := range d.links {
			d.visitThrough(d.tenant.At(n.Address), visits, l)
		}
	}
	d.Pause(settleTime)
	d.Say("killing %s", d.primary.name)
	d.killPrimary()
	died := time.Now()
	d.Pause(*notice)
	d.promote()
	d.promotedAfter = time.Since(died)
	d.Say("%s is the primary after %s", d.primary.name, seconds(d.promotedAfter))
	d.Await("a link is created", func() bool { return d.startedLast(creations).After(died) })
	d.createdAfter = time.Since(died)
	d.Pause(calm)
	d.begin(nameRejoin)
	d.rejoinPostgres()
	d.Say("%s is its synchronous standby", d.standby.name)
	d.Pause(calm)
}

// report compares the database with the responses, and prints everything.
func (d *drill) report() {
	missing, kept := d.missingLinks()
	clicks := d.clickDifference()
	rig.Table(d.rows()...)
	fmt.Println("Seconds. Impaired is from the first to the last request that failed or took over a second.")
	if d.limitedSeen > 0 {
		fmt.Printf("- Redis: nodes noticed: %t; all reached it again %s after the master's death.\n", d.redisNoticed,
			seconds(d.redisBack))
		fmt.Printf("- The limited link was followed %d times of %d.\n", d.limitedSeen, *quota)
	}
	if d.createdAfter > 0 {
		fmt.Printf("- PostgreSQL: promoted after %s, of which %s are the notice; links were created again after %s.\n",
			seconds(d.promotedAfter), seconds(*notice), seconds(d.createdAfter))
	}
	fmt.Printf("- %d visits were redirected; %d links were acknowledged.\n", d.redirects(), kept)
	d.reportWarnings()
	fmt.Println()
	d.promises(missing, clicks)
}

// promises checks those of the phases that were drilled.
func (d *drill) promises(missing []string, clicks string) {
	none := func(what, problems string) { d.Promise(what, problems == "", "%s", strings.TrimSpace(problems+" ")) }
	none(nameCalm+": no request fails", d.failures(nameCalm, visits, creations, firstVisits))
	if d.drilled(nameRestart) {
		none(nameRestart+": no request fails", d.failures(nameRestart, visits, creations, firstVisits))
	}
	if d.drilled(nameRedis) {
		others := d.failuresOf(nameRedis, visits, firstVisits, limitedVisits)
		delete(others, "503")
		none(nameRedis+": failed redirects are 503", format(others))
		d.Promise(fmt.Sprintf("%s: links are redirected within %s", nameRedis, seconds(redirectsBack)),
			d.redisBack <= redirectsBack, "%s", seconds(d.redisBack))
		none(nameRedis+": no creation fails", d.failures(nameRedis, creations))
		d.Promise(nameRedis+": the quota is exact", d.limitedSeen == *quota, "%d of %d", d.limitedSeen, *quota)
	}
	if d.drilled(namePostgres) {
		none(namePostgres+": links in memory are redirected", d.failures(namePostgres, visits))
		others := d.failuresOf(namePostgres, creations)
		delete(others, "UNAVAILABLE")
		none(namePostgres+": failed creations are UNAVAILABLE", format(others))
		late := d.createdAfter - d.promotedAfter
		d.Promise(fmt.Sprintf("%s: links are created within %s of the promotion", namePostgres, seconds(creationsBack)),
			late <= creationsBack, "%s", seconds(late))
		none(nameRejoin+": no request fails", d.failures(nameRejoin, visits, creations, firstVisits))
	}
	none("the same URL always has the same code", strings.Join(d.contradictions, "; "))
	none("every link that was acknowledged exists, with its code", strings.Join(missing, "; "))
	none("every redirect is counted once", clicks)
}

// missingLinks creates every acknowledged link again: it must exist, with its code.
func (d *drill) missingLinks() (missing []string, kept int) {
	all := append(slices.Clone(d.links), d.acknowledged...)
	for i, found := range d.tenant.Fill(len(all), batch, 1, func(i int) map[string]any {
		return map[string]any{"url": all[i].OriginalURL}
	}) {
		if found.Created || found.Link != all[i] {
			missing = append(missing, fmt.Sprintf("%+v became %+v", all[i], found))
		}
	}
	return missing, len(all)
}

// clickDifference waits until the database has every click. It returns the differences between the
// redirects and the totals, the days with the later clicks, and the single clicks.
func (d *drill) clickDifference() (difference string) {
	for deadline := time.Now().Add(time.Minute); ; d.Pause(400 * time.Millisecond) {
		links, lost, twice := 0, 0, 0
		left := maps.Clone(d.book.visits)
		for _, r := range rig.Rows[struct {
			ID                string
			Total, Sums, Rows int
		}](d.Run, d.url(d.primary.address, ""), `
			SELECT id, sum(total)::BIGINT, sum(sums)::BIGINT, sum(n)::BIGINT FROM (
			SELECT subject_id AS id, clicks AS total, 0 AS sums, 0 AS n FROM click_totals WHERE subject_id LIKE 'lnk%'
			UNION ALL SELECT subject_id, 0, clicks, 0 FROM click_days WHERE subject_id LIKE 'lnk%'
			UNION ALL SELECT subject_id, 0, 1, 0 FROM click_totals
				JOIN clicks ON link_id = subject_id AND clicked_at >= sealed_at
			UNION ALL SELECT link_id, 0, 0, 1 FROM clicks) AS counts GROUP BY id`) {
			seen := left[r.ID]
			delete(left, r.ID)
			low, high := min(r.Total, r.Sums, r.Rows), max(r.Total, r.Sums, r.Rows)
			if low < seen.seen || high > seen.seen+seen.unsure || low != high {
				links, lost, twice = links+1, lost+max(0, seen.seen-low), twice+max(0, high-seen.seen-seen.unsure)
			}
		}
		for _, seen := range left {
			if seen.seen > 0 {
				links, lost = links+1, lost+seen.seen
			}
		}
		if links == 0 {
			return ""
		}
		difference = fmt.Sprintf("of %d links, %d visits are missing and %d are counted twice", links, lost, twice)
		if time.Now().After(deadline) {
			return difference
		}
	}
}

// reportWarnings prints the warnings of the nodes by message.
func (d *drill) reportWarnings() {
	messages := map[string]int{}
	for _, n := range d.nodes {
		for _, line := range n.Warnings() {
			var l struct{ Level, Msg string }
			rig.Check(json.Unmarshal([]byte(line), &l))
			messages[l.Level+" "+l.Msg]++
		}
	}
	for _, message := range slices.Sorted(maps.Keys(messages)) {
		fmt.Printf("- the nodes logged %d × %s\n", messages[message], message)
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// describe prints the address of each server.
func (d *drill) describe() {
	fmt.Printf("\nnginx        https://%s (the certificate is its own: curl -k)\n", d.public)
	fmt.Printf("log in as    %s, password %s\n", rig.TenantEmail, rig.TenantPassword)
	fmt.Printf("a link       https://%s%s\n", d.public, d.links[0].Path())
	for _, n := range d.nodes {
		fmt.Printf("%s        http://%s, metrics http://%s/metrics, process %d\n", n.Name, n.Address, n.admin, n.PID)
	}
	for _, s := range []*postgres{d.primary, d.standby} {
		fmt.Printf("%-12s %s, process %d\n", s.name, d.url(s.address, ""), s.PID)
	}
	fmt.Printf("Redis        %s\nlogs         %s\n\nCtrl-C ends it.\n", d.redisURL(), d.Folder)
}
