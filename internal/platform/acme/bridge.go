package acme

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"go.uber.org/zap/zapcore"
)

// bridge passes the warnings and errors of CertMagic to slog, for developers: the Manager logs the outcomes for the
// operator. Of the fields, it passes errors and hosts only: others have addresses.
type bridge struct {
	log    *slog.Logger
	fields []zapcore.Field
}

// Enabled implements zapcore.Core.
func (b bridge) Enabled(level zapcore.Level) bool { return level >= zapcore.WarnLevel }

// With implements zapcore.Core.
func (b bridge) With(fields []zapcore.Field) zapcore.Core {
	return bridge{b.log, slices.Concat(b.fields, fields)}
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
