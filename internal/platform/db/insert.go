package db

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
)

// Insert describes a statement that inserts any number of rows of a model. Tags of the model may
// name columns and exclude fields, but not more.
type Insert struct {
	// Into is the table, with an alias if Rest needs one; empty selects the model's.
	Into string
	// Without are columns that get their defaults.
	Without []string
	// Computed are columns whose values PostgreSQL computes from the others, which are those of
	// input. The model has no fields for them.
	Computed []Computed
	// Rest follows the rows: ON CONFLICT, RETURNING. It has no arguments.
	Rest string
}

// Computed is a column with the SQL of its value.
type Computed struct{ Column, Value string }

// rowsAtOnce is the maximum number of rows of a statement.
const rowsAtOnce = 1000

// InsertRows inserts rows in batches. On PostgreSQL they are sent with the next statement of the
// transaction, or with its commit, whose error is also that of the rows: no round trip waits for
// them.
func InsertRows[T any](ctx context.Context, tx bun.Tx, in Insert, rows []T) error {
	for chunk := range slices.Chunk(rows, rowsAtOnce) {
		q, ctx := insertion(ctx, tx, in, chunk)
		if _, err := q.Exec(pgscope.Defer(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// InsertReturning inserts at least one row with one statement, and scans the returned rows into
// dest.
func InsertReturning[T any](ctx context.Context, tx bun.Tx, in Insert, rows []T, dest any) error {
	q, ctx := insertion(ctx, tx, in, rows)
	return q.Scan(ctx, dest)
}

// insertion returns the statement and its context.
//
// PostgreSQL gets an array for each column, so that the text does not depend on the number of rows:
// a connection parses and plans it once, while VALUES has literals that are parsed each time.
func insertion[T any](ctx context.Context, tx bun.Tx, in Insert, rows []T) (*bun.RawQuery, context.Context) {
	into, list, fields := in.describe(tx.Dialect().Tables().Get(reflect.TypeFor[T]()))
	structs := valuesOf(rows)
	if tx.Dialect().Name() != dialect.PG {
		text := fmt.Sprintf("INSERT INTO %s (%s) VALUES ? %s", into, list, in.Rest)
		return tx.NewRaw(text, bun.In(byRow(fields, structs))), ctx
	}
	text, columns := in.ofArrays(into, list, fields, structs, 1)
	return tx.NewRaw(text), pgscope.Bind(ctx, columns...)
}

// ofArrays returns the statement that inserts the rows of arrays, and the arrays. They are the
// parameters from first on.
func (in Insert) ofArrays(
	into, list string, fields []*schema.Field, structs []reflect.Value, first int,
) (text string, columns []any) {
	types, columns := byColumn(fields, structs)
	from, values := fmt.Sprintf("%s AS input (%s)", unnest(types, first), list), "input.*"
	for _, c := range in.Computed {
		list, values = list+", "+c.Column, values+", "+c.Value
	}
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s %s", into, list, values, from, in.Rest), columns
}

func valuesOf[T any](rows []T) []reflect.Value {
	values := make([]reflect.Value, len(rows))
	for i := range rows {
		values[i] = reflect.Indirect(reflect.ValueOf(&rows[i]).Elem())
	}
	return values
}

// describe returns the table, the columns and the fields of the statement.
func (in Insert) describe(table *schema.Table) (into, list string, fields []*schema.Field) {
	fields = slices.DeleteFunc(slices.Clone(table.Fields),
		func(f *schema.Field) bool { return slices.Contains(in.Without, f.Name) })
	if into = in.Into; into == "" {
		into = string(table.SQLName)
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = string(f.SQLName)
	}
	return into, strings.Join(names, ", "), fields
}

// byColumn returns an array of values for each field, and the element types.
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

// unnest returns the SQL that turns array parameters into a table.
func unnest(types []string, first int) string {
	arrays := make([]string, len(types))
	for i, one := range types {
		arrays[i] = fmt.Sprintf("$%d::%s[]", first+i, one)
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
