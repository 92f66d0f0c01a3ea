package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// subject is a link, or a workspace if the link is below zero.
type subject struct{ link, workspace int }

func (b *bench) stats(s subject, r clickstore.Range, zone string, f clickstore.Filter) *stats.Stats {
	var of clickstore.Subject
	if s.link >= 0 {
		of.LinkID = b.links[s.link]
	}
	return rig.Must((&stats.Store{Clicks: b.store, Now: b.now}).Stats(b, b.members[s.workspace], of, &r, zone, f))
}

// query measures queries of tenants.
func (b *bench) query() {
	link := func(n int) subject { return subject{n, n % workspaces} }
	hottest := func(*rand.Rand) subject { return link(0) }
	anyLink := func(random *rand.Rand) subject { return link(random.IntN(len(b.links))) }
	largest := func(*rand.Rand) subject { return subject{-1, 0} }
	anyWorkspace := func(random *rand.Rand) subject { return subject{-1, random.IntN(workspaces)} }
	// recent is a range that ends in the last month.
	recent := func(random *rand.Rand, days int) clickstore.Range {
		to := b.end.Add(-time.Duration(random.Float64() * float64(30*click.Day)))
		return clickstore.Range{From: to.AddDate(0, 0, -days), To: to}
	}
	series := func(zone string) func(*rand.Rand, subject) {
		return func(random *rand.Rand, of subject) {
			rig.Must(b.stats(of, recent(random, 90), zone, clickstore.Filter{}).Series(b, stats.Day))
		}
	}
	top := func(random *rand.Rand, of subject) {
		rig.Must(b.stats(of, recent(random, 30), "UTC", clickstore.Filter{}).Breakdown(b, click.Referrer, 10))
	}
	combined := func(random *rand.Rand, of subject) {
		from := time.Date(b.end.Year(), b.end.Month()-time.Month(*months-1), 1, 0, 0, 0, 0, time.UTC)
		filter := clickstore.Filter{
			Values: map[click.Dimension]string{click.Country: countries[random.IntN(len(countries))],
				click.Device: []string{"desktop", "mobile", "tablet"}[random.IntN(3)]}}
		rig.Must(b.stats(of, clickstore.Range{From: from, To: b.end}, "UTC", filter).Series(b, stats.Month))
	}
	rows := [][]string{{fmt.Sprintf("question, %d times", *queries), "p50 ms", "p95 ms", "wanted"}}
	for _, q := range []struct {
		name string
		goal float64 // ms, at the 95th percentile
		of   func(*rand.Rand) subject
		send func(*rand.Rand, subject)
	}{
		{"90 days of the hottest link by the day, UTC", 10, hottest, series("UTC")},
		{"90 days of a link by the day, UTC", 10, anyLink, series("UTC")},
		{"90 days of the hottest link by the day, Europe/Berlin", 10, hottest, series("Europe/Berlin")},
		{"90 days of a link by the day, Europe/Berlin", 10, anyLink, series("Europe/Berlin")},
		{"top 10 referrers of the largest workspace in 30 days", 25, largest, top},
		{"top 10 referrers of a workspace in 30 days", 25, anyWorkspace, top},
		{"13 months of a link by the month, country and device", 150, anyLink, combined},
		{"13 months of the hottest link by the month, country and device", 150, hottest, combined},
		{"13 months of the largest workspace by the month, country and device", 150, largest, combined},
	} {
		const warmUps = 10
		random := b.random(1)
		var took []time.Duration
		for n := range warmUps + *queries {
			of, began := q.of(random), time.Now()
			if q.send(random, of); n >= warmUps {
				took = append(took, time.Since(began))
			}
		}
		p50, p95 := rig.Millis(rig.Percentile(took, 0.5)), rig.Millis(rig.Percentile(took, 0.95))
		rows = append(rows, []string{q.name, fmt.Sprintf("%.2f", p50), fmt.Sprintf("%.2f", p95), fmt.Sprint(q.goal)})
	}
	rig.Table(rows...)
}

// checkClicks compares the stored clicks with the sent ones, by each dimension.
func (b *bench) checkClicks() {
	for _, d := range click.StoredDimensions {
		var rows []struct {
			Value  string
			Clicks int64
		}
		if b.kind == inClickHouse {
			b.ask("SELECT toString("+d.Column+") AS Value, count() AS Clicks FROM "+allClicks+
				" GROUP BY Value FORMAT JSONEachRow",
				func(row func(any)) {
					rows = append(rows, struct {
						Value  string
						Clicks int64
					}{})
					row(&rows[len(rows)-1])
				})
		} else {
			rig.Check(
				b.db.NewRaw("SELECT coalesce(CAST("+d.Column+" AS TEXT), '') AS value, count(*) AS clicks FROM clicks "+
					"GROUP BY 1").Scan(db.AsSystem(b), &rows))
		}
		sent := b.sentBy[d.Name]
		for _, r := range rows {
			if r.Clicks != sent[r.Value] {
				b.Wrongf("%s: %d clicks have the %s %q, not %d", b.kind, r.Clicks, d.Name, r.Value, sent[r.Value])
			}
		}
		if len(rows) != len(sent) {
			b.Wrongf("%s: clicks have %d values of %s, not %d", b.kind, len(rows), d.Name, len(sent))
		}
	}
	var visits int64
	if b.kind == inClickHouse {
		b.ask("SELECT countIf(visit) AS N FROM "+allClicks+" FORMAT JSONEachRow", func(row func(any)) {
			var one struct{ N int64 }
			row(&one)
			visits = one.N
		})
	} else {
		rig.Check(b.db.NewRaw("SELECT count(*) FROM clicks WHERE visit").Scan(db.AsSystem(b), &visits))
	}
	if visits != b.visits {
		b.Wrongf("%s: %d visits, not %d", b.kind, visits, b.visits)
	}
}

// zones have offsets of all kinds, and clock changes by half an hour, at midnight, or never.
var zones = strings.Fields(`UTC Europe/Berlin America/New_York Asia/Kathmandu Australia/Lord_Howe America/St_Johns
	Pacific/Chatham Asia/Kolkata America/Santiago Asia/Beirut Pacific/Kiritimati Africa/Casablanca`)

// checkRanges compares stats of random ranges with the clicks one by one.
func (b *bench) checkRanges() {
	b.Say("%s: checking %d ranges", b.kind, *checks)
	random, agreed, all := b.random(2), 0, int64(0)
	for range *checks {
		clicks, difference := b.checkRange(random)
		all += clicks
		if difference == "" {
			agreed++
		} else {
			b.Wrongf("%s: %s", b.kind, difference)
		}
	}
	fmt.Printf("- %d of %d random ranges agree: total, series and breakdown are what was sent, %d clicks in all.\n",
		agreed, *checks, all)
}

// drawRange draws a range, as many short ones as long ones, with an interval of its series.
func (b *bench) drawRange(random *rand.Rand) (clickstore.Range, stats.Interval) {
	all := b.end.Sub(b.begin)
	length := time.Duration(float64(all) * math.Pow(float64(time.Hour)/float64(all), random.Float64()))
	from := b.begin.Add(time.Duration(random.Float64() * float64(all-length)))
	interval := []stats.Interval{stats.Day, stats.Week, stats.Month}[random.IntN(3)]
	if length < 30*click.Day && random.IntN(2) == 0 {
		interval = stats.Hour
	}
	return clickstore.Range{From: from, To: from.Add(length)}, interval
}

// checkRange returns the clicks of a random range, and what differs.
func (b *bench) checkRange(random *rand.Rand) (clicks int64, difference string) {
	link := int(b.ranks.Uint64())
	of := subject{link, link % workspaces}
	if random.IntN(2) == 0 {
		of.link = -1
	}
	span, interval := b.drawRange(random)
	filter := clickstore.Filter{Values: map[click.Dimension]string{}}
	where, args := "workspace_id = ?", []any{b.members[of.workspace].ID()}
	if of.link >= 0 {
		where, args = where+" AND link_id = ?", append(args, b.links[of.link])
	}
	dimensions := click.StoredDimensions
	for range random.IntN(4) / 2 * (1 + random.IntN(2)) { // none in half of the ranges, else one or two
		if d := dimensions[random.IntN(len(dimensions))]; d.Name != click.ByLink && filter.Values[d.Name] == "" {
			for filter.Values[d.Name] = range b.sentBy[d.Name] {
				break // any value
			}
			where += " AND coalesce(CAST(" + d.Column + " AS TEXT), '') = ?"
			args = append(args, filter.Values[d.Name])
		}
	}
	if n := random.IntN(4); n < 2 {
		filter.Bots = new(n == 0)
		where, args = where+" AND bot = ?", append(args, n == 0)
	}
	by := dimensions[random.IntN(len(dimensions))]
	found := b.stats(of, span, zones[random.IntN(len(zones))], filter)
	points := rig.Must(found.Series(b, interval))
	got := map[string]click.Count{"total": rig.Must(found.Total(b))}
	for _, p := range points {
		got["from "+p.Start.String()] = p.Count
	}
	slices, others := click.Count{}, false
	for _, p := range rig.Must(found.Breakdown(b, by.Name, 1000)) {
		slices.Add(p.Count)
		got["value "+p.Value], others = p.Count, others || p.IsOther
	}
	got["slices"] = slices
	want := b.recount(found.Range, by.Column, where, args, points)
	for key := range want {
		n, ok := got[key]
		if _, value := strings.CutPrefix(key, "value "); (n != want[key] || !ok) && !(value && others) {
			difference = fmt.Sprintf("%+v, %+v in %s by %s, %s %v: %s is %+v, not %+v", of, found.Range, found.Zone,
				by.Name,
				where, args, key, n, want[key])
		}
	}
	return want["total"].Clicks, difference
}

// recount counts clicks one by one, by the starts of a series and by value.
func (b *bench) recount(
	span clickstore.Range, column, where string, args []any, points []stats.Point,
) map[string]click.Count {
	quarter := "CAST(floor(extract(epoch FROM clicked_at) / 900) AS BIGINT)"
	if b.kind == db.SQLite {
		quarter = "CAST(strftime('%s', clicked_at) AS INTEGER) / 900"
	}
	where, args = where+" AND clicked_at >= ? AND clicked_at < ?", append(args, span.From, span.To)
	var rows []counted
	if b.kind == inClickHouse {
		rows = b.groups(column, where, args)
	} else {
		rig.Check(b.db.NewRaw("SELECT "+quarter+" AS quarter, coalesce(CAST("+column+
			" AS TEXT), '') AS value, count(*) AS "+
			"clicks, count(*) FILTER (WHERE visit) AS visits, count(*) FILTER (WHERE bot) AS bots FROM clicks WHERE "+
			where+
			" GROUP BY 1, 2 ORDER BY 1", args...).Scan(db.AsSystem(b), &rows))
	}
	want := click.Values{"total": {}, "slices": {}}
	for _, p := range points {
		want["from "+p.Start.String()] = click.Count{}
	}
	at := 0
	for _, r := range rows {
		for at+1 < len(points) && r.Quarter*900 >= points[at+1].Start.Unix() {
			at++
		}
		for _, key := range []string{"total", "slices", "from " + points[at].Start.String(), "value " + r.Value} {
			want.Add(key, click.Count{Clicks: r.Clicks, Visits: r.Visits, Bots: r.Bots})
		}
	}
	return want
}
