package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// creationsBack is how soon after the promotion a link must be made.
const creationsBack = 15 * time.Second

// report prints the table, what else was measured, and what has become of each promise.
func (d *scenario) report(w io.Writer) {
	rig.Table(w, d.book.rows()...)
	fmt.Fprintln(w, "\nSeconds. A gap is the longest time without a good answer; impaired is from the first to the last "+
		"request that failed or took over a second.")
	d.reportRedis(w)
	d.reportPostgres(w)
	fmt.Fprintf(w, "- %d visits were redirected; %d links were acknowledged.\n", d.visits, d.kept)
	for _, line := range d.warnings() {
		fmt.Fprintf(w, "- %s\n", line)
	}
	for _, what := range slices.Sorted(maps.Keys(d.notebook.examples)) {
		fmt.Fprintf(w, "- createLink, %s: for example `%s`\n", what, d.notebook.examples[what])
	}
	fmt.Fprintln(w)
	d.promises().Report(w)
}

func (d *scenario) reportRedis(w io.Writer) {
	if d.limitedSeen == 0 {
		return
	}
	if d.redisNoticed {
		fmt.Fprintf(w, "- Redis: every node counted there again %s after the master's death; until then the database "+
			"counted.\n", seconds(d.redisBack))
	} else {
		fmt.Fprintln(w, "- Redis: no node had to count in the database.")
	}
	fmt.Fprintf(w, "- The limited link was followed %d times of %d. When the master died, %d of its hits were leased or "+
		"not in the database yet; over all links, nodes said up to %d.\n",
		d.limitedSeen, d.quota, d.atRisk, d.bound)
}

func (d *scenario) reportPostgres(w io.Writer) {
	if d.createdAfter == 0 {
		return
	}
	fmt.Fprintf(w, "- PostgreSQL: noticed and promoted after %s, of which %s until it was noticed were set; links were "+
		"made again after %s.\n",
		seconds(d.promotedAfter), seconds(d.notice), seconds(d.createdAfter))
}

// promises are those of the phases that were drilled.
func (d *scenario) promises() (all rig.Promises) {
	add := func(text, against string) { all.Add(text, against == "", "%s", cmp.Or(against, "none")) }
	add(nameCalm+": no request fails", counts(d.book.failures(nameCalm, visits, creations, firstVisits)))
	if d.drilled(nameRestart) {
		add(nameRestart+": no request fails", counts(d.book.failures(nameRestart, visits, creations, firstVisits)))
	}
	if d.drilled(nameRedis) {
		add(nameRedis+": no redirect fails", counts(d.book.failures(nameRedis, visits, firstVisits, limitedVisits)))
		add(nameRedis+": no creation fails", counts(d.book.failures(nameRedis, creations)))
		add(nameRedis+": the quota is given, and no more beyond it than was at risk", d.quotaBroken())
	}
	if d.drilled(namePostgres) {
		add(namePostgres+": links in memory are redirected", counts(d.book.failures(namePostgres, visits)))
		others := d.book.failures(namePostgres, creations)
		delete(others, "UNAVAILABLE")
		add(namePostgres+": whoever cannot make a link is told UNAVAILABLE", counts(others))
		add(fmt.Sprintf("%s: links are made again within %s of the promotion", namePostgres, seconds(creationsBack)),
			d.creationsLate())
	}
	if d.drilled(nameRejoin) {
		add(nameRejoin+": no request fails", counts(d.book.failures(nameRejoin, visits, creations, firstVisits)))
	}
	_, wrong := d.acknowledged.snapshot()
	add("the same URL always has the same code", first(wrong))
	add("every link that was acknowledged is there, with its code", first(d.notThere))
	add("every redirect is counted once", d.clicks.String())
	return all
}

func (d *scenario) drilled(name string) bool {
	return slices.ContainsFunc(d.book.phases, func(p *phase) bool { return p.name == name })
}

func (d *scenario) quotaBroken() string {
	switch more := d.limitedSeen - int64(d.quota); {
	case more < 0:
		return fmt.Sprintf("%d fewer were given", -more)
	case more > d.atRisk:
		return fmt.Sprintf("%d more were given, of %d", more, d.atRisk)
	}
	return ""
}

func (d *scenario) creationsLate() string {
	if d.createdAfter-d.promotedAfter > creationsBack {
		return seconds(d.createdAfter - d.promotedAfter)
	}
	return ""
}

func (d difference) String() string {
	if d.links == 0 {
		return ""
	}
	return fmt.Sprintf("of %d links, as %s, %d visits are missing and %d are there twice", d.links, d.example, d.lost,
		d.twice)
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%d, the first: %s", len(all), all[0])
}

// counts writes failures by what went wrong.
func counts(of map[string]int64) string {
	var words []string
	for _, what := range slices.Sorted(maps.Keys(of)) {
		words = append(words, fmt.Sprintf("%d × %s", of[what], what))
	}
	return strings.Join(words, ", ")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// rows are the table's, with its head.
func (b *book) rows() [][]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	rows := [][]string{{"phase", "what", "requests", "failed", "by what", "slowest", "longest gap", "impaired"}}
	for _, p := range b.phases {
		for k := range kinds {
			f := &p.of[k]
			if f.requests == 0 {
				continue
			}
			what := counts(f.failures)
			if f.refused > 0 {
				what = strings.TrimPrefix(what+fmt.Sprintf(", and %d answered 429", f.refused), ", and ")
			}
			rows = append(rows, []string{
				p.name, k.String(), fmt.Sprint(f.requests), fmt.Sprint(f.failed()), what,
				fmt.Sprintf("%.2f", f.slowest.Seconds()), fmt.Sprintf("%.2f", f.gap.Seconds()),
				fmt.Sprintf("%.1f", f.impaired().Seconds()),
			})
		}
	}
	return rows
}

// warnings are the lines of the nodes' logs from WARN on, by what they say.
func (d *scenario) warnings() (lines []string) {
	said := map[string]int{}
	for _, n := range d.nodes {
		text, err := os.ReadFile(n.log)
		if err != nil {
			lines = append(lines, err.Error())
		}
		for line := range strings.Lines(string(text)) {
			var l struct{ Level, Msg string }
			if json.Unmarshal([]byte(line), &l) == nil && (l.Level == "WARN" || l.Level == "ERROR") {
				said[l.Level+" "+l.Msg]++
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(said)) {
		lines = append(lines, fmt.Sprintf("the nodes logged %d × %s", said[what], what))
	}
	return lines
}
