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

// Insert is a statement that inserts rows of a model, however many. Every field is written as it is: a model's tags name columns
// and leave fields out, and may not say more.
type Insert struct {
	// Into is the table, with an alias if Rest needs one; empty means the model's.
	Into string
	// Without are columns that are left to their defaults.
	Without []string
	// Rest is what follows the rows: ON CONFLICT, RETURNING. It has no arguments.
	Rest string
}

// InsertRows inserts rows, one at least, with one statement, and scans what it returns into dest unless that is nil.
//
// PostgreSQL gets an array for each column, so that the text is the same however many rows there are. A connection reads and plans that
// a few times at most, where VALUES has a literal for each value, each of them read, typed and planned anew.
func InsertRows[T any](ctx context.Context, tx bun.Tx, in Insert, rows []T, dest any) error {
	table := tx.Dialect().Tables().Get(reflect.TypeFor[T]())
	fields := slices.DeleteFunc(slices.Clone(table.Fields), func(f *schema.Field) bool { return slices.Contains(in.Without, f.Name) })
	into, names := in.Into, make([]string, len(fields))
	if into == "" {
		into = string(table.SQLName)
	}
	for i, f := range fields {
		names[i] = string(f.SQLName)
	}
	text := fmt.Sprintf("INSERT INTO %s (%s) ", into, strings.Join(names, ", "))
	var q *bun.RawQuery
	if tx.Dialect().Name() == dialect.PG {
		types, columns := byColumn(fields, rows)
		q, ctx = tx.NewRaw(text+"SELECT * FROM "+unnest(types)+" "+in.Rest), bind(ctx, columns...)
	} else {
		q = tx.NewRaw(text+"VALUES ? "+in.Rest, bun.In(byRow(fields, rows)))
	}
	if dest == nil {
		_, err := q.Exec(ctx)
		return err
	}
	return q.Scan(ctx, dest)
}

// byColumn are the values as arrays, one for each field, and the types of their elements.
func byColumn[T any](fields []*schema.Field, rows []T) (types []string, columns []any) {
	for _, f := range fields {
		column := reflect.MakeSlice(reflect.SliceOf(f.StructField.Type), len(rows), len(rows))
		for i := range rows {
			column.Index(i).Set(f.Value(reflect.Indirect(reflect.ValueOf(&rows[i]).Elem())))
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

func byRow[T any](fields []*schema.Field, rows []T) [][]any {
	values := make([][]any, len(rows))
	for i := range rows {
		row := reflect.Indirect(reflect.ValueOf(&rows[i]).Elem())
		for _, f := range fields {
			values[i] = append(values[i], f.Value(row).Interface())
		}
	}
	return values
}

// bound is the key of what the parameters of a statement stand for.
type bound struct{}

// bind returns a context for one statement on PostgreSQL whose text has $1, $2 and so on, and for what they stand for. Each connection
// keeps such a statement prepared, so it must be one that has a single good plan. PostgreSQL makes another one when the role is
// another, and reads the workspace when the statement runs.
func bind(ctx context.Context, values ...any) context.Context {
	return context.WithValue(ctx, bound{}, append([]any{pgx.QueryExecModeCacheStatement}, values...))
}
