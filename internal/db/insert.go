package db

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/schema"
)

// Insert is a statement that inserts rows of a model, however many. Every field is written as it
// is: a model's tags name columns and leave fields out, and may not say more.
type Insert struct {
	// Into is the table, with an alias if Rest needs one; empty means the model's.
	Into string
	// Without are columns that are left to their defaults.
	Without []string
	// Rest is what follows the rows: ON CONFLICT, RETURNING. It has no arguments.
	Rest string
}

// rowsAtOnce bounds a statement of InsertRows.
const rowsAtOnce = 1000

// InsertRows inserts rows, if there are any, with a statement for each thousand.
func InsertRows[T any](ctx context.Context, tx bun.Tx, in Insert, rows []T) error {
	for chunk := range slices.Chunk(rows, rowsAtOnce) {
		q, ctx := insertion(ctx, tx, in, chunk)
		if _, err := q.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// InsertReturning inserts rows, one at least, with one statement, and scans what it returns into
// dest.
func InsertReturning[T any](ctx context.Context, tx bun.Tx, in Insert, rows []T, dest any) error {
	q, ctx := insertion(ctx, tx, in, rows)
	return q.Scan(ctx, dest)
}

// insertion is the statement, and the context that it runs with.
//
// PostgreSQL gets an array for each column, so that the text is the same however many rows there
// are. A connection reads and plans that once, where VALUES has a literal for each value, each of
// them read, typed and planned anew.
func insertion[T any](ctx context.Context, tx bun.Tx, in Insert, rows []T) (*bun.RawQuery, context.Context) {
	table := tx.Dialect().Tables().Get(reflect.TypeFor[T]())
	fields := slices.DeleteFunc(slices.Clone(table.Fields),
		func(f *schema.Field) bool { return slices.Contains(in.Without, f.Name) })
	into, names := in.Into, make([]string, len(fields))
	if into == "" {
		into = string(table.SQLName)
	}
	for i, f := range fields {
		names[i] = string(f.SQLName)
	}
	structs := make([]reflect.Value, len(rows))
	for i := range rows {
		structs[i] = reflect.Indirect(reflect.ValueOf(&rows[i]).Elem())
	}
	text := fmt.Sprintf("INSERT INTO %s (%s) ", into, strings.Join(names, ", "))
	if tx.Dialect().Name() != dialect.PG {
		return tx.NewRaw(text+"VALUES ? "+in.Rest, bun.In(byRow(fields, structs))), ctx
	}
	types, columns := byColumn(fields, structs)
	return tx.NewRaw(text + "SELECT * FROM " + unnest(types) + " " + in.Rest), bind(ctx, columns...)
}

// byColumn are the values as arrays, one for each field, and the types of their elements.
func byColumn(fields []*schema.Field, structs []reflect.Value) (types []string, columns []any) {
	for _, f := range fields {
		column := reflect.MakeSlice(reflect.SliceOf(f.StructField.Type), len(structs), len(structs))
		for i, row := range structs {
			column.Index(i).Set(f.Value(row))
		}
		types, columns = append(types, f.DiscoveredSQLType), append(columns, column.Interface())
	}
	return types, columns
}

// unnest turns parameters that are arrays into a table.
func unnest(types []string) string {
	arrays := make([]string, len(types))
	for i, one := range types {
		arrays[i] = fmt.Sprintf("$%d::%s[]", i+1, one)
	}
	return "unnest(" + strings.Join(arrays, ", ") + ")"
}

func byRow(fields []*schema.Field, structs []reflect.Value) [][]any {
	values := make([][]any, len(structs))
	for i, row := range structs {
		for _, f := range fields {
			values[i] = append(values[i], f.Value(row).Interface())
		}
	}
	return values
}

// bound is the key of what the parameters of a statement stand for.
type bound struct{}

// bind returns a context for one statement on PostgreSQL whose text has $1, $2 and so on, and for
// what they stand for. Each connection keeps such a statement prepared, so it must be one that has
// a single good plan. PostgreSQL makes another one when the role is another, and reads the
// workspace when the statement runs.
func bind(ctx context.Context, values ...any) context.Context {
	return context.WithValue(ctx, bound{}, append([]any{pgx.QueryExecModeCacheStatement}, values...))
}
