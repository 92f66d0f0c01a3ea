package db

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/uptrace/bun"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Trace creates a span for each statement within another span. It records the kind of statement and
// the table. The texts of statements and errors are omitted, because they contain values. Call it
// before the database is used.
func (d *DB) Trace(t trace.Tracer) { d.DB = d.WithQueryHook(spans{t, systems[d.Kind]}) }

// systems are the databases' names in spans
// (https://opentelemetry.io/docs/specs/semconv/registry/attributes/db/).
var systems = map[Kind]string{Postgres: "postgresql", SQLite: "sqlite"}

// spans makes a span of each statement.
type spans struct {
	tracer trace.Tracer
	system string
}

// BeforeQuery implements bun.QueryHook.
func (s spans) BeforeQuery(ctx context.Context, e *bun.QueryEvent) context.Context {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx // a job's, or a loop's
	}
	operation, table := word(e.Operation()), ""
	if _, raw := e.IQuery.(*bun.RawQuery); raw {
		operation, table = describe(e.Query)
	} else if e.IQuery != nil {
		table = word(e.IQuery.GetTableName())
	}
	_, span := s.tracer.Start(ctx, strings.TrimSpace("SQL "+operation+" "+table),
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			attribute.String("db.system.name", s.system), attribute.String("db.operation.name", operation),
			attribute.String("db.collection.name", table),
		))
	e.Stash = map[any]any{spanKey{}: span}
	return ctx // without the span: that of BEGIN would go to all of a transaction, and be over
}

type spanKey struct{}

// AfterQuery implements bun.QueryHook.
func (s spans) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	span, ok := e.Stash[spanKey{}].(trace.Span)
	if !ok {
		return
	}
	if e.Err != nil && !errors.Is(e.Err, sql.ErrNoRows) {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// describe returns the operation of a statement and, if it is written in the text, its table.
func describe(text string) (operation, table string) {
	words := append(strings.Fields(text[:min(len(text), 100)]), "", "", "")
	switch operation = word(words[0]); operation {
	case "INSERT", "DELETE": // INTO, FROM
		table = word(words[2])
	case "UPDATE":
		table = word(words[1])
	}
	return operation, table
}

// word is the name of a table or of a kind of statement: nothing else is let through.
func word(s string) string {
	s = strings.Trim(s, `"`)
	for _, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return ""
		}
	}
	return s
}
