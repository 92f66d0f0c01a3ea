package main

import (
	"log/slog"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/linkforge/linkforge/internal/platform/web"
)

// number is the current value of a metric. Packages store plain numbers and do not depend on
// metrics.
type number struct {
	name, help string
	kind       prometheus.ValueType
	value      float64
	// spread is a histogram's; nil for a plain number.
	spread         *web.Spread
	labels, values []string
}

// plainNumber are the types of numbers that packages store.
type plainNumber interface {
	~int | ~int64 | ~uint64 | ~float64
}

// counter is a number that only grows while the node runs. Its name ends in _total.
func counter[N plainNumber](name, help string, value N) number {
	return number{name: name, help: help, kind: prometheus.CounterValue, value: float64(value)}
}

// gauge is a number that goes up and down. Its name ends in the unit, if it has one: _seconds or
// _bytes.
func gauge[N plainNumber](name, help string, value N) number {
	return number{name: name, help: help, kind: prometheus.GaugeValue, value: float64(value)}
}

// histogram is how durations are spread. Its name ends in _seconds.
func histogram(name, help string, durations web.Spread) number {
	return number{name: name, help: help, spread: &durations}
}

// By is the number for one value of a label. The values are few and known beforehand: each makes a
// time series, and none may come from links, workspaces, hosts or codes.
func (n number) By(label, value string) number {
	n.labels, n.values = append(slices.Clip(n.labels), label), append(slices.Clip(n.values), value)
	return n
}

// metric converts the number to Prometheus's type, or to an error metric if its value is invalid.
func (n number) metric() prometheus.Metric {
	d := prometheus.NewDesc(n.name, n.help, n.labels, nil)
	m, err := n.measured(d)
	if err != nil {
		return prometheus.NewInvalidMetric(d, err)
	}
	return m
}

func (n number) measured(d *prometheus.Desc) (prometheus.Metric, error) {
	if n.spread == nil {
		return prometheus.NewConstMetric(d, n.kind, n.value, n.values...)
	}
	return prometheus.NewConstHistogram(d, n.spread.Count, n.spread.Sum.Seconds(), n.spread.UpTo(), n.values...)
}

// serveMetrics answers with the numbers that read returns at the moment of asking, and with those of the
// Go runtime and the process, in the formats of Prometheus. A number that cannot be shown is
// logged, and the others are shown.
func serveMetrics(read func() []number, log *slog.Logger) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		numberCollector(read))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
	})
}

// numberCollector reads all numbers at once, so that the numbers of a package belong to one instant.
type numberCollector func() []number

// Describe implements prometheus.Collector. It says nothing beforehand: the registry checks what
// Collect brings.
func (c numberCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c numberCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, n := range c() {
		metrics <- n.metric()
	}
}
