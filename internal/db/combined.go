package db

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Combined is a statement of PostgreSQL that consists of several, which all see the same snapshot: it takes one
// round trip, and commits. Values are parameters, as those of Params.
type Combined struct {
	db     *DB
	parts  []part
	values []any
}

// part is a statement and the name of its rows.
type part struct{ name, text string }

// mainPart is the context key of the text by which a combined statement is traced.
type mainPart struct{}

// Combine returns a statement without parts.
func (d *DB) Combine() *Combined { return &Combined{db: d} }

// Of adds a value and returns its placeholder.
func (c *Combined) Of(value any) string {
	c.values = append(c.values, value)
	return "$" + strconv.Itoa(len(c.values))
}

// Add adds a statement. Those after it may read what it returns under its name.
func (c *Combined) Add(name, text string) { c.parts = append(c.parts, part{name, text}) }

// AddInsert adds a statement that inserts rows; none for no rows.
func AddInsert[T any](c *Combined, name string, in Insert, rows []T) {
	if len(rows) == 0 {
		return
	}
	into, list, fields := in.describe(c.db.Dialect().Tables().Get(reflect.TypeFor[T]()))
	text, columns := in.ofArrays(into, list, fields, valuesOf(rows), len(c.values)+1)
	c.values = append(c.values, columns...)
	c.Add(name, text)
}

// ExecReturning executes the statement if the named part returns exactly n rows. Otherwise, or if the database has
// preferred another transaction, it reports false, and nothing has changed.
func (c *Combined) ExecReturning(ctx context.Context, name string, n int) (done bool, err error) {
	var with []string
	for _, p := range c.parts {
		with = append(with, p.name+" AS ("+p.text+")")
		if p.name == name {
			ctx = context.WithValue(ctx, mainPart{}, p.text)
		}
	}
	// A division by zero is the shortest way to roll a statement back.
	text := fmt.Sprintf("WITH %s SELECT 1 / (count(*) = %s)::INT FROM %s", strings.Join(with, ", "), c.Of(n), name)
	_, err = c.db.NewRaw(text).Exec(bind(ctx, c.values...))
	if pgCode(err) == divisionByZero || isConflict(err) {
		return false, nil
	}
	return err == nil, err
}
