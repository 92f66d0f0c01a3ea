package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/linkforge/linkforge/internal/cli/manifest"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// listing is the output format of a command: columns for a person on a terminal, and elsewhere cells
// that are separated by tabs, without a head; or JSON.
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
		for _, row := range rows {
			if err := writeJSON(io.Out, row); err != nil {
				return err
			}
		}
		return nil
	}
	out, flush := io.Out, func() error { return nil }
	if io.Terminal {
		table := tabwriter.NewWriter(io.Out, 0, 0, 2, ' ', 0)
		out, flush = table, table.Flush
		fmt.Fprintln(out, head)
	}
	for _, row := range rows {
		if _, err := fmt.Fprintln(out, strings.Join(columns(row), "\t")); err != nil {
			return err
		}
	}
	return flush()
}

// writeJSON writes a value as a line of JSON that cannot control a terminal.
func writeJSON(out io.Writer, value any) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	_, err := fmt.Fprint(out, manifest.Printable(line.Bytes()))
	return err
}

// showOne prints one changed object, in text as a sentence.
func showOne(io IO, l listing, row any, sentence string, args ...any) error {
	if l.JSON {
		return writeJSON(io.Out, row)
	}
	_, err := fmt.Fprintf(io.Out, sentence+"\n", args...)
	return err
}

// quoted is what strangers have written: it must not move the operator's cursor.
func quoted(s string) string { return validate.Quote(s) }

// cell is a text of strangers that programs read, too: it is quoted only if it has characters that
// end a cell or control a terminal.
func cell(s string) string {
	if q := strconv.QuoteToGraphic(s); q != `"`+s+`"` {
		return q
	}
	return s
}

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

// parseInstant returns the time that the text of a flag names: a date, whose begin in UTC it is, a
// time of RFC 3339, or a number of days or a duration from now. A sign of -1 is for times in the
// past, and 1 for those in the future.
func parseInstant(flag, text string, now time.Time, sign time.Duration) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		at, err := time.Parse(layout, text)
		if err == nil && at.Sub(now)*sign <= 0 {
			return at, fmt.Errorf("%s must be in the %s", flag, map[time.Duration]string{1: "future", -1: "past"}[sign])
		}
		if err == nil {
			return at.UTC(), nil
		}
	}
	length, err := config.ParseDuration(text)
	if err != nil || length <= 0 || length > maxDays*day {
		return time.Time{}, fmt.Errorf("%s must be a date as 2027-01-01, which begins in UTC, a time as "+
			"2027-01-01T12:00:00Z, or a time from now as 90d or 12h, at most %dd", flag, maxDays)
	}
	return now.UTC().Add(sign * length), nil
}

const (
	day = 24 * time.Hour
	// maxDays bounds a duration from now.
	maxDays = 36500
)

// utc is a time as JSON has it.
func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC()
	return &at
}
