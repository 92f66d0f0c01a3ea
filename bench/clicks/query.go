package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/stats"
	"github.com/linkforge/linkforge/internal/workspace"
)

// question is something that a tenant asks.
type question struct {
	name string
	// goal is what it may take, at the 95th percentile; zero when nothing was said of it.
	goal time.Duration
	// of draws whose clicks are asked for, and ask asks.
	of  func(*rand.Rand) subject
	ask func(context.Context, *rand.Rand, subject) error
}

// subject is a link, or a workspace, as one of its members sees it.
type subject struct {
	stats.Subject
	member workspace.Membership
}

// answer is how long a question took.
type answer struct {
	question
	p50, p95 time.Duration
}

// warmUps is how often a question is asked before it is measured.
const warmUps = 10

// Whose clicks are asked for. The hottest link is the first workspace's, and that one has the most
// clicks.
func (b *bench) link(k int) subject {
	return subject{stats.Subject{LinkID: b.stream.links[k]}, b.owner(k)}
}
func (b *bench) hottest(*rand.Rand) subject        { return b.link(0) }
func (b *bench) anyLink(random *rand.Rand) subject { return b.link(random.IntN(b.links)) }
func (b *bench) largest(*rand.Rand) subject        { return subject{member: b.members[0]} }
func (b *bench) anyWorkspace(random *rand.Rand) subject {
	return subject{member: b.members[random.IntN(workspaces)]}
}

// questions are all that are asked.
func (b *bench) questions() []question {
	const quick, soon, late = 10 * time.Millisecond, 25 * time.Millisecond, 150 * time.Millisecond
	return []question{
		{"a 90 days of the hottest link by the day, UTC", quick, b.hottest, b.series(90, stats.Day, "UTC")},
		{"a 90 days of a link by the day, UTC", quick, b.anyLink, b.series(90, stats.Day, "UTC")},
		{"a 90 days of the hottest link by the day, Europe/Berlin", quick, b.hottest,
			b.series(90, stats.Day, "Europe/Berlin")},
		{"a 90 days of a link by the day, Europe/Berlin", quick, b.anyLink, b.series(90, stats.Day, "Europe/Berlin")},
		{"b top 10 referrers of the largest workspace in 30 days", soon, b.largest, b.top(click.Referrer)},
		{"b top 10 referrers of a workspace in 30 days", soon, b.anyWorkspace, b.top(click.Referrer)},
		{"c 13 months of a link by the month, country and device", late, b.anyLink, b.combined},
		{"c 13 months of the hottest link by the month, country and device", late, b.hottest, b.combined},
		{"c 13 months of the largest workspace by the month, country and device", late, b.largest, b.combined},
		{"d top 10 links of the largest workspace in 30 days", 0, b.largest, b.top(click.ByLink)},
		{"d top 10 links of a workspace in 30 days", 0, b.anyWorkspace, b.top(click.ByLink)},
		{"e the latest clicks of the largest workspace", 0, b.largest, b.latest},
		{"e the latest clicks of a workspace", 0, b.anyWorkspace, b.latest},
	}
}

// ask asks all questions, one at a time.
func (b *bench) ask(ctx context.Context) error {
	for _, q := range b.questions() {
		random := rand.New(rand.NewPCG(b.seed, 1))
		var took []time.Duration
		for n := range warmUps + b.asks {
			of, began := q.of(random), time.Now()
			if err := q.ask(ctx, random, of); err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			if n >= warmUps {
				took = append(took, time.Since(began))
			}
		}
		slices.Sort(took)
		b.answers = append(b.answers, answer{q, took[len(took)/2], took[len(took)*95/100]})
		if b.plans {
			if err := b.explain(ctx, q, random); err != nil {
				return err
			}
		}
	}
	return nil
}

// series asks for some days that end within the last month, by an interval and in a zone.
func (b *bench) series(days int, by stats.Interval, zone string) func(context.Context, *rand.Rand, subject) error {
	return func(ctx context.Context, random *rand.Rand, of subject) error {
		to := b.recently(random)
		found, err := b.store.Stats(ctx, of.member, of.Subject, &stats.Range{From: to.AddDate(0, 0, -days), To: to}, zone,
			stats.Filter{})
		if err == nil {
			_, err = found.Series(ctx, by)
		}
		return err
	}
}

// top asks for the ten values with the most clicks in 30 days.
func (b *bench) top(by click.Dimension) func(context.Context, *rand.Rand, subject) error {
	return func(ctx context.Context, random *rand.Rand, of subject) error {
		to := b.recently(random)
		found, err := b.store.Stats(ctx, of.member, of.Subject, &stats.Range{From: to.AddDate(0, 0, -30), To: to}, "UTC",
			stats.Filter{})
		if err == nil {
			_, err = found.Breakdown(ctx, by, 10)
		}
		return err
	}
}

// combined asks for all months with two filters, in UTC.
func (b *bench) combined(ctx context.Context, random *rand.Rand, of subject) error {
	filter := stats.Filter{Values: map[click.Dimension]string{
		click.Country: countries[random.IntN(len(countries))], click.Device: []string{"desktop", "mobile",
			"tablet"}[random.IntN(3)],
	}}
	from := time.Date(b.end.Year(), b.end.Month()-time.Month(b.months-1), 1, 0, 0, 0, 0, time.UTC)
	found, err := b.store.Stats(ctx, of.member, of.Subject, &stats.Range{From: from, To: b.end}, "UTC", filter)
	if err == nil {
		_, err = found.Series(ctx, stats.Month)
	}
	return err
}

// latest asks for the first page of the clicks themselves.
func (b *bench) latest(ctx context.Context, _ *rand.Rand, of subject) error {
	_, err := b.store.List(ctx, of.member, of.Subject, nil, stats.Filter{}, page.Request{Size: page.Default})
	return err
}

// recently is an instant of the last month, the same for nobody.
func (b *bench) recently(random *rand.Rand) time.Time {
	return b.end.Add(-time.Duration(random.Float64() * float64(30*day)))
}
