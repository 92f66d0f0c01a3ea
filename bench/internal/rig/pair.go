package rig

// Pair is a load and its baseline, with the figures of each round.
type Pair struct {
	Name             string
	Baseline, Target func() Figures

	rateRatio, cpuRatio []float64
	after, before       []Figures // of target and baseline
}

// MeasurePairs measures all pairs in each round, target and baseline in alternating order.
func (r *Run) MeasurePairs(rounds int, pairs []*Pair) {
	for round := range rounds {
		r.Say("round %d of %d", round+1, rounds)
		for _, p := range pairs {
			p.measure(round)
		}
	}
}

func (p *Pair) measure(round int) {
	var target, baseline Figures
	if round%2 == 0 {
		baseline, target = p.Baseline(), p.Target()
	} else {
		target, baseline = p.Target(), p.Baseline()
	}
	p.rateRatio = append(p.rateRatio, target.Rate/baseline.Rate)
	p.cpuRatio = append(p.cpuRatio, target.CPU()/baseline.CPU())
	p.after, p.before = append(p.after, target), append(p.before, baseline)
}

// TableOfPairs prints the ratios of the pairs, and the CPU time of a request in µs.
func TableOfPairs(pairs []*Pair) {
	const services = "of which PostgreSQL, Redis"
	rows := [][]string{{"", "rate", "CPU", "CPU µs", services, "baseline", services}}
	beside := func(f Figures) float64 { return f.Beside }
	for _, p := range pairs {
		rows = append(rows, []string{
			p.Name, Spread(p.rateRatio, "%.3f", Same), Spread(p.cpuRatio, "%.3f", Same),
			Spread(p.after, "%.1f", Figures.CPU), Spread(p.after, "%.1f", beside),
			Spread(p.before, "%.1f", Figures.CPU), Spread(p.before, "%.1f", beside),
		})
	}
	Table(rows...)
}
