package web

import (
	"log/slog"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Number is the current value of a metric. Packages store plain numbers and do not depend on
// metrics.
type Number struct {
	name, help string
	kind       prometheus.ValueType
	value      float64
	// spread is a histogram's; nil for a plain number.
	spread         *Spread
	labels, values []string
}

// plainNumber are the types of numbers that packages store.
type plainNumber interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Counter is a number that only grows while the node runs. Its name ends in _total.
func Counter[N plainNumber](name, help string, value N) Number {
	return Number{name: name, help: help, kind: prometheus.CounterValue, value: float64(value)}
}

// Gauge is a number that goes up and down. Its name ends in the unit, if it has one: _seconds or
// _bytes.
func Gauge[N plainNumber](name, help string, value N) Number {
	return Number{name: name, help: help, kind: prometheus.GaugeValue, value: float64(value)}
}

// Histogram is how durations are spread. Its name ends in _seconds.
func Histogram(name, help string, durations Spread) Number {
	return Number{name: name, help: help, spread: &durations}
}

// By is the number for one value of a label. The values are few and known beforehand: each makes a
// time series, and none may come from links, workspaces, hosts or codes.
func (n Number) By(label, value string) Number {
	n.labels, n.values = append(slices.Clip(n.labels), label), append(slices.Clip(n.values), value)
	return n
}

// metric converts the number to Prometheus's type, or to an error metric if its value is invalid.
func (n Number) metric() prometheus.Metric {
	d := prometheus.NewDesc(n.name, n.help, n.labels, nil)
	m, err := n.measured(d)
	if err != nil {
		return prometheus.NewInvalidMetric(d, err)
	}
	return m
}

func (n Number) measured(d *prometheus.Desc) (prometheus.Metric, error) {
	if n.spread == nil {
		return prometheus.NewConstMetric(d, n.kind, n.value, n.values...)
	}
	return prometheus.NewConstHistogram(d, n.spread.Count, n.spread.Sum.Seconds(), n.spread.upTo(), n.values...)
}

// Metrics answers with the numbers that read returns at the moment of asking, and with those of the
// Go runtime and the process, in the formats of Prometheus. A number that cannot be shown is
// logged, and the others are shown.
func Metrics(read func() []Number, log *slog.Logger) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector(read))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
	})
}

// collector reads all numbers at once, so that the numbers of a package belong to one instant.
type collector func() []Number

// Describe implements prometheus.Collector. It says nothing beforehand: the registry checks what
// Collect brings.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	for _, n := range c() {
		metrics <- n.metric()
	}
}
