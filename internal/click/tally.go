package click

import "math"

// Tally is a count of redirects and how long they took: a running mean and the sum of squared
// deviations from it, which stay accurate however many are added (Welford) or merged (Chan).
type Tally struct {
	// Clicks is the count.
	Clicks int64
	// LatencyMean is in milliseconds, LatencyM2 in milliseconds squared.
	LatencyMean float64
	LatencyM2   float64
}

// Add counts one redirect with its latency in milliseconds.
func (t *Tally) Add(latencyMs float64) {
	t.Merge(Tally{Clicks: 1, LatencyMean: latencyMs})
}

// Merge adds another tally.
func (t *Tally) Merge(o Tally) {
	if o.Clicks == 0 {
		return
	}
	all := float64(t.Clicks + o.Clicks)
	delta := o.LatencyMean - t.LatencyMean
	t.LatencyM2 += o.LatencyM2 + delta*delta*float64(t.Clicks)*float64(o.Clicks)/all
	t.LatencyMean += delta * float64(o.Clicks) / all
	t.Clicks += o.Clicks
}

// Mean is the mean latency in milliseconds, or nil before the first redirect.
func (t Tally) Mean() *float64 {
	if t.Clicks == 0 {
		return nil
	}
	return &t.LatencyMean
}

// Near reports whether both agree up to rounding.
func (t Tally) Near(o Tally) bool {
	return t.Clicks == o.Clicks && math.Abs(t.LatencyMean-o.LatencyMean) <= 1e-6*(1+math.Abs(o.LatencyMean)) &&
		math.Abs(t.LatencyM2-o.LatencyM2) <= 1e-6*(1+math.Abs(o.LatencyM2))
}
