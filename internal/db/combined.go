package db

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/uptrace/bun"
)

// Combined builds one statement of PostgreSQL from several parts, a WITH clause. All parts see the same snapshot. The
// statement takes one round trip and is a transaction of its own. Values are parameters, as those of Params.
type Combined struct {
	db     *DB
	parts  []part
	values []any
}

// part is a statement and the name of its rows.
type part struct{ name, text string }

// mainPart is the context key of the part that names a combined statement in its span.
type mainPart struct{}

// Combine returns a statement without parts.
func (d *DB) Combine() *Combined { return &Combined{db: d} }

// Of adds a value and returns its placeholder.
func (c *Combined) Of(value any) string {
	c.values = append(c.values, value)
	return "$" + strconv.Itoa(len(c.values))
}

// Add adds a part. Later parts can select its rows by its name.
func (c *Combined) Add(name, text string) { c.parts = append(c.parts, part{name, text}) }

// AddInsert adds a part that inserts rows. Without rows it adds none, so the name must not be used.
func AddInsert[T any](c *Combined, name string, in Insert, rows []T) {
	if len(rows) == 0 {
		return
	}
	into, list, fields := in.describe(c.db.Dialect().Tables().Get(reflect.TypeFor[T]()))
	text, columns := in.ofArrays(into, list, fields, valuesOf(rows), len(c.values)+1)
	c.values = append(c.values, columns...)
	c.Add(name, text)
}

// ExecReturning executes the statement if the named part returns exactly n rows. Otherwise, or after a deadlock, it
// reports false, and nothing has changed.
func (c *Combined) ExecReturning(ctx context.Context, name string, n int) (done bool, err error) {
	query, ctx := c.statement(ctx, name, fmt.Sprintf("SELECT 1 / (count(*) = %s)::INT FROM %s", c.Of(n), name))
	_, err = query.Exec(ctx)
	return isDone(err)
}

// Query executes the statement, and scans the rows of the named part into dest. It repeats it after a deadlock.
func (c *Combined) Query(ctx context.Context, name string, dest any) (err error) {
	query, ctx := c.statement(ctx, name, "SELECT * FROM "+name)
	for range attempts {
		if err = query.Scan(ctx, dest); !isConflict(err) {
			break
		}
	}
	return err
}

// QueryUnlessZero executes the statement with the end, which divides by an expression that must not be zero. It
// scans the rows into dest. If the expression is zero, or after a deadlock, it reports false, and nothing has
// changed. The statement is traced by the named part.
func (c *Combined) QueryUnlessZero(ctx context.Context, name, end string, dest any) (done bool, err error) {
	query, ctx := c.statement(ctx, name, end)
	return isDone(query.Scan(ctx, dest))
}

// Columns returns the list of the columns of a model, as the end of a statement must name them.
func (c *Combined) Columns(table string, model any) string {
	fields := c.db.Dialect().Tables().Get(reflect.TypeOf(model)).Fields
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = table + "." + string(f.SQLName)
	}
	return strings.Join(names, ", ")
}

// statement returns the statement with its end, and its context. It is traced by the main part.
func (c *Combined) statement(ctx context.Context, main, end string) (*bun.RawQuery, context.Context) {
	var with []string
	for _, p := range c.parts {
		with = append(with, p.name+" AS ("+p.text+")")
		if p.name == main {
			ctx = context.WithValue(ctx, mainPart{}, p.text)
		}
	}
	return c.db.NewRaw("WITH " + strings.Join(with, ", ") + " " + end), bind(ctx, c.values...)
}

// isDone interprets the error of a combined statement. A division by zero is the shortest way to roll it back: parts
// must not divide by zero themselves.
func isDone(err error) (bool, error) {
	if pgCode(err) == divisionByZero || isConflict(err) {
		return false, nil
	}
	return err == nil, err
}
