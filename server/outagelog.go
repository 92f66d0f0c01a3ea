package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// repeatInterval is the time between two lines of the log about failures of one kind.
const repeatInterval = 10 * time.Second

// outageLog is a handler that logs the failures of an outage once: of those with the same message
// it writes the first one and, at each interval, the last one with the number of those since the
// line before. Otherwise each request of an outage would be a line. Errors that are no outage, and
// lines without an error, pass.
type outageLog struct {
	slog.Handler
	repeats *repeats
}

func newOutageLog(h slog.Handler) outageLog {
	return outageLog{h, &repeats{series: map[failure]*series{}}}
}

// Handle implements slog.Handler.
func (h outageLog) Handle(ctx context.Context, r slog.Record) error {
	if f, ok := failureOf(r); ok && h.repeats.hold(f, h.Handler, r) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h outageLog) WithAttrs(attributes []slog.Attr) slog.Handler {
	return outageLog{h.Handler.WithAttrs(attributes), h.repeats}
}

// WithGroup implements slog.Handler.
func (h outageLog) WithGroup(name string) slog.Handler {
	return outageLog{h.Handler.WithGroup(name), h.repeats}
}

// failure is a kind of failures; name is that of a job.
type failure struct {
	level         slog.Level
	message, name string
}

// failureOf returns the kind of a line about an outage or a timeout; false for other lines.
func failureOf(r slog.Record) (f failure, isOutage bool) {
	f = failure{level: r.Level, message: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "error":
			err, isError := a.Value.Any().(error)
			isOutage = isError && (errs.Is(err, errs.Unavailable) || errs.IsTimeout(err))
		case "name":
			f.name = a.Value.String()
		}
		return true
	})
	return f, isOutage && r.Level >= slog.LevelWarn
}

// repeats are the kinds of failures that were logged within the interval.
type repeats struct {
	mu     sync.Mutex
	series map[failure]*series
}

// series are the failures of a kind since its last line.
type series struct {
	held    int
	last    slog.Record
	handler slog.Handler
}

// hold counts a failure, unless it is the first one of its kind.
func (p *repeats) hold(f failure, h slog.Handler, r slog.Record) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, isRepeated := p.series[f]
	if isRepeated {
		s.held, s.last, s.handler = s.held+1, r.Clone(), h
		return true
	}
	p.series[f] = &series{}
	time.AfterFunc(repeatInterval, func() { p.report(f) })
	return false
}

// report logs the failures that were held back. A kind without any is over.
func (p *repeats) report(f failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.series[f]
	switch {
	case s == nil: // close was faster
	case s.held == 0:
		delete(p.series, f)
	default:
		s.write()
		time.AfterFunc(repeatInterval, func() { p.report(f) })
	}
}

// close logs all failures that were held back. Later ones begin again.
func (p *repeats) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for f, s := range p.series {
		if s.held > 0 {
			s.write()
		}
		delete(p.series, f)
	}
}

// write logs the last failure with the number of those since the line before.
func (s *series) write() {
	s.last.AddAttrs(slog.Int("repeated", s.held))
	_ = s.handler.Handle(context.Background(), s.last) // as slog does
	s.held = 0
}
