package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/web"
)

// scrapeNumbers returns the metrics of some numbers, without those of the runtime, and the log.
func scrapeNumbers(t *testing.T, read func() []number) (lines, logged string) {
	t.Helper()
	var log bytes.Buffer
	w := request(serveMetrics(read, slog.New(slog.NewTextHandler(&log, nil))), http.MethodGet, "/metrics")
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "\ngo_goroutines ") ||
		!strings.Contains(body, "\nprocess_start_time_seconds ") {
		t.Errorf("status %d, or the runtime's or the process's numbers are missing:\n%s", w.Code, body)
	}
	for line := range strings.Lines(w.Body.String()) {
		if strings.Contains(line, "test_") {
			lines += line
		}
	}
	return lines, log.String()
}

// TestGauges_AreExposed as they are read at a scrape.
func TestGauges_AreExposed(t *testing.T) {
	t.Parallel()
	scrapes := 0
	read := func() []number {
		scrapes++
		return []number{
			counter("test_answers_total", "Answers.", int64(7)).By("status", "302"),
			counter("test_answers_total", "Answers.", uint64(0)).By("status", "404"),
			gauge("test_lag_seconds", "Lag.", (1500 * time.Millisecond).Seconds()),
			gauge("test_scrapes", "Scrapes.", scrapes),
		}
	}
	for n := 1; n <= 2; n++ {
		lines, logged := scrapeNumbers(t, read)
		want := fmt.Sprintf(`# HELP test_answers_total Answers.
# TYPE test_answers_total counter
test_answers_total{status="302"} 7
test_answers_total{status="404"} 0
# HELP test_lag_seconds Lag.
# TYPE test_lag_seconds gauge
test_lag_seconds 1.5
# HELP test_scrapes Scrapes.
# TYPE test_scrapes gauge
test_scrapes %d
`, n)
		if lines != want || logged != "" {
			t.Errorf("got\n%swant\n%slogged: %s", lines, want, logged)
		}
	}
}

// TestGauges_OmitFailures hides no other.
func TestGauges_OmitFailures(t *testing.T) {
	t.Parallel()
	good := gauge("test_good", "Good.", 1)
	for name, bad := range map[string]number{
		"two of one name":  good,
		"no name":          gauge("", "Nothing.", 1),
		"a label's name":   gauge("test_label", "Label.", 1).By("__name__", "x"),
		"a label's value":  gauge("test_value", "Value.", 1).By("x", "\xff"),
		"two kinds of one": counter("test_good", "Good.", 1).By("x", "y"),
	} {
		lines, logged := scrapeNumbers(t, func() []number { return []number{good, bad} })
		if !strings.Contains(lines, "\ntest_good 1\n") || !strings.Contains(logged, "level=WARN") {
			t.Errorf("%s: %s\nlogged: %s", name, lines, logged)
		}
	}
}

// TestHistograms_AreExposed as a histogram, under more than one label.
func TestHistograms_AreExposed(t *testing.T) {
	t.Parallel()
	var d web.Durations
	for _, took := range []time.Duration{0, time.Millisecond, 1001 * time.Microsecond, 20 * time.Second} {
		d.Add(took)
	}
	lines, logged := scrapeNumbers(t, func() []number {
		n := histogram("test_took_seconds", "Took.", d.Spread())
		return []number{n.By("kind", "a").By("code", "x"), n.By("kind", "a").By("code", "y")}
	})
	for _, want := range []string{
		`test_took_seconds_bucket{code="x",kind="a",le="0.001"} 2`,
		`test_took_seconds_bucket{code="x",kind="a",le="0.0025"} 3`,
		`test_took_seconds_bucket{code="x",kind="a",le="15"} 3`,
		`test_took_seconds_bucket{code="y",kind="a",le="+Inf"} 4`,
		`test_took_seconds_count{code="y",kind="a"} 4`, `test_took_seconds_sum{code="x",kind="a"} 20.002001`,
	} {
		if !strings.Contains(lines, want+"\n") || logged != "" {
			t.Errorf("%s is missing in\n%slogged: %s", want, lines, logged)
		}
	}
}
