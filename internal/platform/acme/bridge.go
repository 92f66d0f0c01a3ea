package acme

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/mholt/acmez/v3/acme"
	"go.uber.org/zap/zapcore"
)

// bridge passes the warnings and errors of CertMagic to slog, for developers: the Manager logs the outcomes for the
// operator. Of the fields, it passes errors and hosts only: others have addresses.
type bridge struct {
	log *slog.Logger
	// note receives the problems that the authority has with a host. CertMagic returns only the last error of an order,
	// which is that no kind of challenge is left.
	note   func(host string, problem acme.Problem)
	fields []zapcore.Field
}

// Enabled implements zapcore.Core.
func (b bridge) Enabled(level zapcore.Level) bool { return level >= zapcore.WarnLevel }

// With implements zapcore.Core.
func (b bridge) With(fields []zapcore.Field) zapcore.Core {
	return bridge{b.log, b.note, slices.Concat(b.fields, fields)}
}

// Check implements zapcore.Core.
func (b bridge) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return to.AddCore(e, b)
	}
	return to
}

// Write implements zapcore.Core. A panic, which CertMagic recovers from, is an error for the operator too.
func (b bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(b.fields, fields) {
		f.AddTo(values)
	}
	if problem, ok := values.Fields["problem"].(map[string]any); ok {
		b.note(fmt.Sprint(values.Fields["identifier"]),
			acme.Problem{Type: fmt.Sprint(problem["type"]), Detail: fmt.Sprint(problem["detail"])})
	}
	level := slog.LevelDebug
	if e.Message == "panic" {
		level = slog.LevelError
	}
	attributes := []any{"event", withoutAddresses(e.Message)}
	for _, name := range []string{"error", "identifier", "identifiers"} {
		if value, ok := values.Fields[name]; ok {
			attributes = append(attributes, name, withoutAddresses(fmt.Sprint(value)))
		}
	}
	b.log.Log(context.Background(), level, "TLS certificates", attributes...)
	return nil
}

// Sync implements zapcore.Core.
func (bridge) Sync() error { return nil }
