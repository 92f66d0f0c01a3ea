package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/db"
)

// ratioGoal is how much of COPY's rate ingest is to have, at least.
const ratioGoal = 0.5

func (b *bench) line(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

// reportIngest prints what ingest costs, in Markdown.
func (b *bench) reportIngest() {
	settings, err := b.settings(context.Background())
	if err != nil {
		b.wrongly("its settings are not known: %v", err)
	}
	b.line("\n## %s\n", map[db.Kind]string{db.Postgres: "PostgreSQL", db.SQLite: "SQLite"}[b.kind])
	b.line("%d clicks of %d links in %d workspaces, %s to %s, seed %d, rounds of %d. %s. %s. Medians of rounds, with "+
		"the least and the most.\n",
		b.total, b.links, workspaces, b.stream.begin.Format(time.DateOnly), b.end.Format(time.DateOnly), b.seed, b.round,
		settings, rig.Machine())
	b.line("| | clicks/s | µs a click | written ahead, bytes a click |\n|---|---|---|---|")
	b.rate("ingest", func(r round) time.Duration { return r.ingest }, func(r round) int64 { return r.ingestLog })
	b.rate("ingest and the jobs", func(r round) time.Duration { return r.ingest + r.jobs() },
		func(r round) int64 { return r.ingestLog + r.jobsLog })
	if b.kind == db.Postgres {
		b.rate("COPY of the same rows", func(r round) time.Duration { return r.copying },
			func(r round) int64 { return r.copyLog })
		b.line("| **ingest / COPY** | %s | | |", rig.Spread(b.rounds, "%.2f",
			func(r round) float64 { return r.copying.Seconds() / r.ingest.Seconds() }))
	}
	b.line("| making the clicks | %s | %s | |", rig.Spread(b.rounds, "%.0f",
		func(r round) float64 { return 1e6 / r.a(r.generate) }),
		rig.Spread(b.rounds, "%.2f", func(r round) float64 { return r.a(r.generate) }))
	b.stages()
	b.room()
}

// rate prints a line of what was done to all clicks.
func (b *bench) rate(name string, took func(round) time.Duration, log func(round) int64) {
	ahead := ""
	if b.kind == db.Postgres {
		ahead = rig.Spread(b.rounds, "%.0f", func(r round) float64 { return float64(log(r)) / float64(r.clicks) })
	}
	b.line("| %s | %s | %s | %s |", name,
		rig.Spread(b.rounds, "%.0f", func(r round) float64 { return 1e6 / r.a(took(r)) }),
		rig.Spread(b.rounds, "%.1f", func(r round) float64 { return r.a(took(r)) }), ahead)
}

// ratio is ingest's rate by COPY's, of the medians.
func (b *bench) ratio() float64 {
	return rig.Median(b.rounds, func(r round) float64 { return r.a(r.copying) }) / rig.Median(b.rounds,
		func(r round) float64 { return r.a(r.ingest) })
}

// stages prints the costs when few clicks were there, and when all were.
func (b *bench) stages() {
	b.line("\n| µs a click, around | ingest | COPY | Seal | Detail | ForgetVisitors | Retain " +
		"|\n|---|---|---|---|---|---|---|")
	for _, tenth := range []int{1, 5, 10} {
		from, to := b.total*(2*tenth-1)/20, b.total*(2*tenth+1)/20
		around := slices.Collect(func(yield func(round) bool) {
			for _, r := range b.rounds {
				if r.upTo > from && r.upTo-r.clicks < to && !yield(r) {
					return
				}
			}
		})
		b.line("| %d clicks | %s |", b.total*tenth/10, strings.Join([]string{
			mean(around, func(r round) time.Duration { return r.ingest }),
			mean(around, func(r round) time.Duration { return r.copying }),
			mean(around, func(r round) time.Duration { return r.seal }),
			mean(around, func(r round) time.Duration { return r.detail }),
			mean(around, func(r round) time.Duration { return r.forget }),
			mean(around, func(r round) time.Duration { return r.retain }),
		}, " | "))
	}
}

// mean is a part of rounds for each of their clicks, in microseconds; nothing when there was none
// of it.
func mean(rounds []round, of func(round) time.Duration) string {
	clicks, took := 0, time.Duration(0)
	for _, r := range rounds {
		clicks += r.clicks
		took += of(r)
	}
	if took == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", round{clicks: clicks}.a(took))
}

// room prints how much of the disk a click takes.
func (b *bench) room() {
	b.line("\n| table | MiB | bytes a click |\n|---|---|---|")
	all := int64(0)
	for _, s := range b.sizes {
		all += s.bytes
		b.line("| %s | %.1f | %.1f |", s.table, float64(s.bytes)/(1<<20), float64(s.bytes)/float64(b.total))
	}
	if len(b.sizes) > 1 {
		b.line("| in all | %.1f | %.1f |", float64(all)/(1<<20), float64(all)/float64(b.total))
	}
}

// reportAnswers prints how long the questions took.
func (b *bench) reportAnswers() {
	b.line("\n| question, %d times | p50 ms | p95 ms | wanted |\n|---|---|---|---|", b.asks)
	for _, a := range b.answers {
		wanted := ""
		if a.goal > 0 {
			wanted = fmt.Sprintf("< %d", a.goal.Milliseconds())
		}
		b.line("| %s | %.2f | %.2f | %s |", a.name, rig.Millis(a.p50), rig.Millis(a.p95), wanted)
	}
	b.line("")
}

// reportChecks prints how many ranges agreed.
func (b *bench) reportChecks(agreed int, clicks int64, when string) {
	b.line("- %d of %d random ranges agree%s: total, series and breakdown are what was sent, %d clicks in all.", agreed,
		b.checks, when, clicks)
}

// reportMended prints how the sums were made anew.
func (b *bench) reportMended(format string, args ...any) { b.line("- "+format, args...) }

// reportGoals holds the figures of PostgreSQL against the goals.
func (b *bench) reportGoals() {
	if b.kind != db.Postgres {
		return
	}
	var missed []string
	if r := b.ratio(); r < ratioGoal {
		missed = append(missed, fmt.Sprintf("ingest is %.2f of COPY, not %.2f", r, ratioGoal))
	}
	for _, a := range b.answers {
		if a.goal > 0 && a.p95 >= a.goal {
			missed = append(missed, fmt.Sprintf("%s: %.1f ms, not %d", a.name, rig.Millis(a.p95), a.goal.Milliseconds()))
		}
	}
	verdict := "pass"
	if len(missed) > 0 {
		verdict = "fail: " + strings.Join(missed, "; ")
	}
	b.line("\ngoals: %s", verdict)
}
