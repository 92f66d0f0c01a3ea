package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/validate"
)

// listing is the output format of a list.
type listing struct {
	JSON bool `name:"json" help:"Print one JSON object per line."`
}

// page bounds a list, whose next part begins after an id.
type pageFlags struct {
	Limit int    `default:"100" help:"Maximum number, 1 to 10000."`
	After string `help:"Continue after this id, the last one of the previous page."`
}

// mostListed bounds a list.
const mostListed = 10_000

func checkLimit(n int) error {
	if n < 1 || n > mostListed {
		return fmt.Errorf("--limit must be from 1 to %d", mostListed)
	}
	return nil
}

// printNext prints how to list the next page, if there may be one.
func (p pageFlags) printNext(io IO, n int, lastID func() string) {
	if n == p.Limit {
		fmt.Fprintln(io.Err, "there may be more: --after", lastID())
	}
}

// show writes rows for a program, or in columns for a person.
func show[T any](io IO, l listing, head string, rows []T, columns func(row T) []string) error {
	if l.JSON {
		lines := json.NewEncoder(io.Out)
		lines.SetEscapeHTML(false)
		for _, row := range rows {
			if err := lines.Encode(row); err != nil {
				return err
			}
		}
		return nil
	}
	table := newTable(io.Out)
	fmt.Fprintln(table, head)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(columns(row), "\t"))
	}
	return table.Flush()
}

// showOne prints one changed object, in text as a sentence.
func showOne(io IO, l listing, row any, sentence string, args ...any) error {
	if l.JSON {
		return show(io, l, "", []any{row}, nil)
	}
	_, err := fmt.Fprintf(io.Out, sentence+"\n", args...)
	return err
}

// quoted is what strangers have written: it must not move the operator's cursor.
func quoted(s string) string { return validate.Quote(s) }

// quotedList is a list of what strangers have written.
func quotedList(all []string) string {
	each := make([]string, len(all))
	for i, one := range all {
		each[i] = quoted(one)
	}
	return strings.Join(each, ", ")
}

// instant is a time in a column, or a dash.
func instant(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// utc is a time as JSON has it.
func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC()
	return &at
}
