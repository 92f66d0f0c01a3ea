package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// calm is how long everything goes on before and after something happens.
	calm = 8 * time.Second
	// afterNode is how long a node that is back is left alone: nginx asks it again after two seconds.
	afterNode = 3 * time.Second
	// quiet is how long nobody is redirected until the limited link counts as used up: hits that a
	// node holds come back to the others within that time.
	quiet = 4 * time.Second
	// ingestPatience is how long the database may take to have every click once nobody comes any more.
	ingestPatience = time.Minute
)

// The phases' names in the report.
const (
	nameCalm     = "calm"
	nameRestart  = "rolling restart"
	nameRedis    = "a Redis master dies"
	namePostgres = "the PostgreSQL primary dies"
	nameRejoin   = "it comes back as standby"
)

// scenario is the drill on a layout.
type scenario struct {
	*layout
	book     *book
	tally    *tally
	tenant   *rig.Tenant
	notebook notebook

	links        []link // that are followed all the time
	limited      link
	acknowledged register
	crowds       []*crowd

	// redisBack and redisNoticed are how long after the master's death every node counted at Redis
	// again, and whether any has noticed it; bound is the largest overshoot that nodes said to be
	// possible meanwhile, over all links, and atRisk what the limited link had in it when the master
	// died.
	redisBack     time.Duration
	redisNoticed  bool
	bound, atRisk int64
	limitedSeen   int64
	// promotedAfter and createdAfter are how long after the primary's death there was another, and a
	// link was made.
	promotedAfter, createdAfter time.Duration
	// notThere are links that were acknowledged and are not as they were; clicks is what was counted
	// wrong.
	notThere []string
	clicks   difference
	visits   int64
	kept     int
}

// prepare starts everything, and makes what is followed.
func (d *scenario) prepare(ctx context.Context) error {
	if err := d.start(ctx); err != nil {
		return err
	}
	return d.settle(ctx)
}

// settle makes an account, workspaces and links.
func (d *scenario) settle(ctx context.Context) error {
	d.tenant = &rig.Tenant{Address: "https://" + d.public, HTTP: d.newClient()}
	if err := d.tenant.Register(ctx, "drill"); err != nil {
		return err
	}
	for from := 0; from < d.layout.links; from += linksAtOnce {
		var urls []string
		for number := from; number < min(from+linksAtOnce, d.layout.links); number++ {
			urls = append(urls, "https://example.com/followed/"+strconv.Itoa(number))
		}
		some, _, err := d.makeLinks(ctx, d.tenant.Workspace, urls)
		if err != nil {
			return err
		}
		d.links = append(d.links, some...)
	}
	return d.settleLimited(ctx)
}

// settleLimited makes the link whose allowance is used up: in a workspace of its own, whose
// allowance the operator sets.
func (d *scenario) settleLimited(ctx context.Context) error {
	workspace, err := d.tenant.CreateWorkspace(ctx, "drill-limited")
	if err != nil {
		return err
	}
	if err := d.operate(ctx, "workspaces", "limits", "drill-limited", "--hits", strconv.Itoa(d.quota)); err != nil {
		return err
	}
	some, _, err := d.makeLinks(ctx, workspace, []string{"https://example.com/limited"})
	if err != nil {
		return err
	}
	d.limited = some[0]
	d.say("%d links are there, and one that may be followed %d times", len(d.links), d.quota)
	return nil
}

// linksAtOnce is how many links one call makes.
const linksAtOnce = 100

// makeLinks makes links, or finds those that are there; made says how many were not.
func (d *scenario) makeLinks(
	ctx context.Context, workspace string, urls []string,
) (links []link, created int, err error) {
	var input []any
	for _, u := range urls {
		input = append(input, map[string]any{"url": u})
	}
	in := *d.tenant
	in.Workspace = workspace
	all, err := in.MakeLinks(ctx, input)
	if err != nil {
		return nil, 0, err
	}
	for i, m := range all {
		l, err := linkOf(m, urls[i])
		if err != nil {
			return nil, 0, err
		}
		if m.Created {
			created++
		}
		links = append(links, l)
	}
	return links, created, nil
}

// run is the drill itself.
func (d *scenario) run(ctx context.Context) error {
	d.begin(nameCalm)
	d.gatherAll(ctx)
	defer d.disperse()
	if err := rig.Pause(ctx, calm); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{
		{phaseRestart, d.replaceNodes}, {phaseRedis, d.killRedis}, {phasePostgres, d.killPostgres},
	} {
		if !slices.Contains(d.phases, part.name) {
			continue
		}
		if err := part.do(ctx); err != nil {
			return fmt.Errorf("phase %s: %w", part.name, err)
		}
	}
	d.disperse()
	d.say("nobody comes any more: counting")
	return errors.Join(d.lookAtLinks(ctx), d.awaitClicks(ctx))
}

func (d *scenario) begin(name string) {
	d.book.turn(name)
	d.say("%s", name)
}

func (d *scenario) gatherAll(ctx context.Context) {
	d.crowds = append(d.crowds, gather(ctx, visitors, d.rate, func(ctx context.Context) {
		d.visit(ctx, visits, d.links[mathrand.IntN(len(d.links))])
	}))
	free := make(chan *creator, creators)
	for i := range creators {
		free <- &creator{scenario: d, name: strconv.Itoa(i + 1)}
	}
	d.crowds = append(d.crowds, gather(ctx, creators, d.creates, func(ctx context.Context) {
		c := <-free
		c.step(ctx)
		free <- c
	}))
}

// disperse waits until everybody has gone. A second call does nothing.
func (d *scenario) disperse() {
	var all sync.WaitGroup
	for _, c := range d.crowds {
		all.Go(c.stop)
	}
	all.Wait()
	d.crowds = nil
}

// replaceNodes stops and starts the nodes, one after the other.
func (d *scenario) replaceNodes(ctx context.Context) error {
	d.begin(nameRestart)
	for _, n := range d.nodes {
		began := time.Now()
		if err := n.stop(); err != nil {
			return err
		}
		if n.err != nil {
			return fmt.Errorf("%s ended badly: %w\n%s", n.name, n.err, n.said())
		}
		stopped := time.Now()
		if err := d.layout.run(ctx, n); err != nil {
			return err
		}
		d.say("%s ended after %s, and was ready again %s later", n.name, seconds(stopped.Sub(began)),
			seconds(time.Since(stopped)))
		if err := rig.Pause(ctx, afterNode); err != nil {
			return err
		}
	}
	return nil
}

// killRedis kills the master that counts the limited link's hits when half of them are used, and
// lets it be followed until it is used up.
func (d *scenario) killRedis(ctx context.Context) error {
	d.begin(nameRedis)
	follow := gather(ctx, limitedVisitors, limitedRate,
		func(ctx context.Context) { d.visit(ctx, limitedVisits, d.limited) })
	defer follow.stop()
	watch := d.watchBound(ctx)
	defer watch.stop()
	seen := func() int64 { return d.tally.of(d.limited.id).seen }
	if err := await(ctx, "half of the quota is used", func() bool { return seen() >= int64(d.quota)/2 }); err != nil {
		return err
	}
	victim, err := d.redis.masterOf(ctx, "links:{"+d.limited.id+"}")
	if err != nil {
		return err
	}
	if d.atRisk, err = d.riskOf(ctx, victim); err != nil {
		return err
	}
	victim.kill()
	died := time.Now()
	d.say("%s is dead", victim.name)
	if err := d.awaitRedis(ctx, died); err != nil {
		return err
	}
	d.say("every node counts at Redis again after %s", seconds(d.redisBack))
	before, since := seen(), time.Now()
	err = await(ctx, "the quota is used up", func() bool {
		if now := seen(); now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > quiet
	})
	if err != nil {
		return err
	}
	follow.stop()
	d.limitedSeen = seen()
	if err := d.redis.rejoin(ctx, victim); err != nil {
		return err
	}
	return rig.Pause(ctx, afterNode)
}

// riskOf is what may be given once more of the limited link if its counter is lost now: what the
// database does not have yet, and what nodes have leased, which is looked at last.
func (d *scenario) riskOf(ctx context.Context, master *redisServer) (int64, error) {
	known, err := d.postgres.number(ctx, d.postgres.primary,
		"SELECT COALESCE(SUM(clicks), 0)::BIGINT FROM click_totals WHERE subject_id = '"+d.limited.id+"'")
	if err != nil {
		return 0, err
	}
	waiting := max(0, d.tally.of(d.limited.id).seen-known)
	leased, err := master.sum(ctx, "links:{"+d.limited.id+"}:lease:*")
	return waiting + leased, err
}

// watchBound samples how many hits more than the quota the nodes say could be given, summed.
func (d *scenario) watchBound(ctx context.Context) *crowd {
	return gather(ctx, 1, 10, func(ctx context.Context) {
		var sum float64
		for _, n := range d.nodes {
			bound, _ := n.metric(ctx, "linkforge_quota_overshoot_bound")
			sum += bound
		}
		d.bound = max(d.bound, int64(sum))
	})
}

// awaitRedis waits until no node counts in the database any more, some time after the death:
// before, none has noticed.
func (d *scenario) awaitRedis(ctx context.Context, died time.Time) error {
	away := died
	return await(ctx, "all nodes count at Redis again", func() bool {
		for _, n := range d.nodes {
			if fallback, ok := n.metric(ctx, "linkforge_quota_fallback"); !ok || fallback != 0 {
				away, d.redisNoticed = time.Now(), true
			}
		}
		d.redisBack = away.Sub(died)
		return time.Since(away) > 3*nodeTimeout
	})
}

// killPostgres kills the primary, promotes the standby, leads PgBouncer to it, and then makes the
// old one its standby.
func (d *scenario) killPostgres(ctx context.Context) error {
	d.begin(namePostgres)
	if err := d.warmUp(ctx); err != nil {
		return err
	}
	if err := rig.Pause(ctx, afterNode); err != nil {
		return err
	}
	d.postgres.primary.kill()
	died := time.Now()
	d.say("%s is dead", d.postgres.primary.name)
	if err := rig.Pause(ctx, d.notice); err != nil {
		return err
	}
	if err := d.postgres.promote(ctx); err != nil {
		return err
	}
	if d.pooler != nil {
		if err := d.pooler.repoint(d.postgres.primary.address); err != nil {
			return err
		}
	}
	promoted := time.Now()
	d.promotedAfter = promoted.Sub(died)
	d.say("%s is the primary after %s", d.postgres.primary.name, seconds(d.promotedAfter))
	if err := await(ctx, "a link can be made again",
		func() bool { return d.book.goodSince(creations, died) }); err != nil {
		return err
	}
	d.createdAfter = time.Since(died)
	d.say("links are made again after %s", seconds(d.createdAfter))
	if err := rig.Pause(ctx, calm); err != nil {
		return err
	}
	d.begin(nameRejoin)
	if err := d.postgres.rejoin(ctx); err != nil {
		return err
	}
	d.say("%s is its synchronous standby", d.postgres.standby.name)
	return rig.Pause(ctx, calm)
}

// warmUp has every node look at every link, so that all of them are in its memory. Looking counts
// nothing.
func (d *scenario) warmUp(ctx context.Context) error {
	for _, n := range d.nodes {
		for _, l := range d.links {
			request, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+n.address+l.path, nil)
			if err != nil {
				return err
			}
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				return err
			}
			if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusFound {
				return errors.Join(err, fmt.Errorf("%s answers %d to HEAD %s", n.name, response.StatusCode, l.path))
			}
		}
	}
	return nil
}

// lookAtLinks asks for every link that was acknowledged once more: it must be there, with its code.
func (d *scenario) lookAtLinks(ctx context.Context) error {
	all, _ := d.acknowledged.snapshot()
	all = append(all, d.links...)
	d.kept = len(all)
	for some := range slices.Chunk(all, linksAtOnce) {
		var urls []string
		for _, l := range some {
			urls = append(urls, l.url)
		}
		found, created, err := d.makeLinks(ctx, d.tenant.Workspace, urls)
		if err != nil {
			return err
		}
		if created > 0 {
			d.notThere = append(d.notThere, fmt.Sprintf("%d links of %s and following were not there", created, some[0].url))
		}
		for i, l := range some {
			if found[i].id != l.id || found[i].code != l.code {
				d.notThere = append(d.notThere, l.url+" had the code "+l.code+", and has "+found[i].code)
			}
		}
	}
	return nil
}

// awaitClicks waits until the database has every click, and compares.
func (d *scenario) awaitClicks(ctx context.Context) error {
	seen := d.tally.snapshot()
	for _, v := range seen {
		d.visits += v.seen
	}
	return rig.Within(d.postgres.url(d.postgres.primary.address, ""), true, func(open *sql.DB) error {
		for deadline := time.Now().Add(ingestPatience); ; {
			has, err := countClicks(ctx, open)
			if err != nil {
				return err
			}
			if d.clicks = compare(seen, has); d.clicks.links == 0 || time.Now().After(deadline) {
				return nil
			}
			if err := rig.Pause(ctx, 400*time.Millisecond); err != nil {
				return err
			}
		}
	})
}

// countClicks is what the database has of each link.
func countClicks(ctx context.Context, open *sql.DB) (map[string]counted, error) {
	type row struct {
		ID                string
		Total, Sums, Rows int64
	}
	rows, err := rig.Rows[row](ctx, open, `SELECT id, sum(total)::BIGINT, sum(sums)::BIGINT, sum(n)::BIGINT FROM (
		SELECT subject_id AS id, clicks AS total, 0 AS sums, 0 AS n FROM click_totals WHERE subject_id LIKE 'lnk%'
		UNION ALL SELECT subject_id, 0, clicks, 0 FROM click_buckets WHERE subject_id LIKE 'lnk%'
		UNION ALL SELECT link_id, 0, 0, 1 FROM clicks) AS counts GROUP BY id`)
	all := map[string]counted{}
	for _, r := range rows {
		all[r.ID] = counted{r.Total, r.Sums, r.Rows}
	}
	return all, err
}

// stay says where everything is, and waits for Ctrl-C.
func (d *scenario) stay(ctx context.Context, out io.Writer) {
	fmt.Fprintf(out, "\nnginx        https://%s (the certificate is its own: curl -k)\n", d.public)
	fmt.Fprintf(out, "log in as    %s, password %s\n", rig.TenantEmail, rig.TenantPassword)
	fmt.Fprintf(out, "a link       https://%s%s\n", d.public, d.links[0].path)
	for _, n := range d.nodes {
		fmt.Fprintf(out, "%s        http://%s, metrics http://%s/metrics, process %d\n", n.name, n.address, n.admin,
			n.cmd.Process.Pid)
	}
	if d.pooler != nil {
		fmt.Fprintf(out, "PgBouncer    %s\n", d.postgres.url(d.pooler.address, ""))
	}
	fmt.Fprintf(out, "primary      %s, process %d\n", d.postgres.url(d.postgres.primary.address, ""),
		d.postgres.primary.cmd.Process.Pid)
	fmt.Fprintf(out, "standby      %s, process %d\n", d.postgres.url(d.postgres.standby.address, ""),
		d.postgres.standby.cmd.Process.Pid)
	fmt.Fprintf(out, "Redis        %s\n", d.redis.url())
	fmt.Fprintf(out, "logs         %s\n\nCtrl-C ends it.\n", d.host.folder)
	<-ctx.Done()
}
