package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/cli/manifest"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// failuresFlag names the file for rows and links that need attention.
type failuresFlag struct {
	Failures string `type:"path" placeholder:"FILE" help:"Write all rows that failed, were skipped or closed, or lost a value, and all differences of a parity check, to a CSV file; - is standard output."`
}

// check returns an error for a file of failures of a task whose end is not awaited.
func (f failuresFlag) check(wait bool) error {
	if f.Failures != "" && !wait {
		return errors.New("--failures needs --wait; or name the file with: linkforge tasks watch ID --failures FILE")
	}
	return nil
}

// endedTask is a task with its result.
type endedTask struct {
	listedTask
	Failure *userError
	Report  *taskReport
}

// taskReport is the result of an import, a check of parity or an export.
type taskReport struct {
	DryRun      bool
	OperationID *string
	Ended       int64
	Counts      []struct {
		Outcome, Verdict string
		Rows, Links      int64
	}
	Losses []struct {
		Field, Reason string
		Rows          int64
	}
	IgnoredFields []string
	Hosts         []struct {
		Host string
		Rows int64
	}
	Rows, Closed, Lossy page[reportedRow]
	Differences         page[difference]
	Sections            []struct {
		Kind    string
		Records int64
	}
	URL, SHA256 *string
	RemovedAt   *time.Time
}

// page is a part of a list.
type page[T any] struct {
	Nodes    []T
	PageInfo struct {
		HasNextPage bool
		EndCursor   *string
	}
}

// reportedRow is a row of an import.
type reportedRow struct {
	Line      int64
	SourceID  string
	SourceURL *string
	Outcome   string
	Code      *string
	Losses    []reportedLoss
	Errors    UserErrors
}

type reportedLoss struct {
	Field, Reason string
	Value, Form   *string
}

// difference is a short URL that differs from its source.
type difference struct {
	SourceURL, Verdict string
	SourceStatus       *int
	SourceLocation     *string
	Status             int
	Location           *string
}

const (
	lossFields = "losses { field reason value form }"
	rowFields  = "line sourceId sourceUrl outcome code " + lossFields + " errors { message field }"
	diffFields = "sourceUrl verdict sourceStatus sourceLocation status location"
	pageFields = "pageInfo { hasNextPage endCursor }"
	// mostShown is how many rows of a kind are printed.
	mostShown    = 20
	reportFields = `failure { message } report {
		... on ImportReport { dryRun operationId counts { outcome rows } losses { field reason rows } ignoredFields
			ended hosts { host rows }
			rows(first: 20, outcomes: [FAILED, SKIPPED]) { nodes { ` + rowFields + ` } ` + pageFields + ` }
			closed: rows(first: 20, outcomes: [CLOSED]) { nodes { ` + rowFields + ` } ` + pageFields + ` }
			lossy: rows(first: 20, outcomes: [CREATED, UPDATED, UNCHANGED, RENAMED], lossesOnly: true) {
				nodes { ` + rowFields + ` } ` + pageFields + ` } }
		... on ParityReport { counts { verdict links } differences(first: 20) { nodes { ` + diffFields + ` } ` +
		pageFields + ` } }
		... on WorkspaceArchive { sections { kind records } url sha256 removedAt } }`
)

// result prints the result of a task that has ended, and writes its failures to a file, if that has
// a name. It returns ExitStatus 2 if rows failed or were skipped, or links differ.
func (c Client) result(ctx context.Context, io IO, taskID, failures string) error {
	var got struct{ Node *endedTask }
	err := c.doWithRetry(ctx, &got, `query ($id: ID!) { node(id: $id) { ... on Task { `+taskFields+" "+reportFields+
		` } } }`, map[string]any{"id": taskID})
	if err == nil && got.Node == nil { // deleted since it ended
		err = errNoTask(taskID)
	}
	if err != nil {
		return err
	}
	targets, err := c.targets(ctx, got.Node)
	if err != nil {
		return err
	}
	if failures != "" {
		if err := c.writeFailures(ctx, io, got.Node, failures); err != nil {
			return err
		}
	}
	return got.Node.print(io, targets, failures)
}

// targets returns the hosts of the domains that get the links of hosts, by these. It returns none
// to a key that must not see domains.
func (c Client) targets(ctx context.Context, t *endedTask) (map[string]string, error) {
	if t.Report == nil || len(t.Report.Hosts) == 0 {
		return nil, nil
	}
	var got struct {
		Node struct {
			Report struct {
				Hosts []struct {
					Host   string
					Domain *struct{ Host string }
				}
			}
		}
	}
	err := c.doWithRetry(ctx, &got, `query ($id: ID!) { node(id: $id) { ... on Task { report {
		... on ImportReport { hosts { host domain { host } } } } } } }`, map[string]any{"id": t.ID})
	if isRefused(err, "FORBIDDEN") {
		return nil, nil
	}
	targets := map[string]string{}
	for _, h := range got.Node.Report.Hosts {
		if targets[h.Host] = "the shared codes of the workspace"; h.Domain != nil {
			targets[h.Host] = "the codes of " + quoted(h.Domain.Host)
		}
	}
	return targets, err
}

// print prints the result.
func (t *endedTask) print(io IO, targets map[string]string, failures string) error {
	fmt.Fprintf(io.Out, "%s %s: %s\n", t.ID, t.Status, t.progress())
	if t.Failure != nil {
		fmt.Fprintln(io.Out, t.Failure.Message)
	}
	isComplete := t.Status == "SUCCEEDED"
	if r := t.Report; r != nil {
		isComplete = r.print(io.Out, targets, failures) && isComplete
		switch {
		case r.URL != nil:
			fmt.Fprintf(io.Out, "until %s, for an hour at a time: %s\nSHA-256 %s\n", instant(r.RemovedAt), *r.URL,
				optional.Value(r.SHA256))
		case r.OperationID != nil:
			fmt.Fprintf(io.Out, "undo it with revertOperation: %s\nor with: linkforge links undo %[1]s\n",
				*r.OperationID)
		case t.Kind == "IMPORT" && !r.DryRun:
			fmt.Fprintln(io.Out, "nothing was changed")
		case t.Kind == "IMPORT" && t.Status == "SUCCEEDED":
			fmt.Fprintln(io.Out, "nothing was changed: import with --apply, or applyImport of this task")
		}
	}
	switch {
	case t.Status != "SUCCEEDED":
		return ExitStatus(1)
	case !isComplete:
		return ExitStatus(2)
	}
	return nil
}

// print prints the numbers of a report, and the first rows of each kind. It reports whether all
// rows were imported, and no links differ.
func (r *taskReport) print(out io.Writer, targets map[string]string, failures string) (isComplete bool) {
	isComplete = true
	counts := map[string]int64{}
	for _, c := range r.Counts {
		counts[c.Outcome], counts[c.Verdict] = c.Rows, c.Links
		fmt.Fprintf(out, "%8d %s%s\n", c.Rows+c.Links, c.Outcome, c.Verdict)
		isComplete = isComplete && c.Outcome != "FAILED" && c.Outcome != "SKIPPED" &&
			(c.Verdict == "" || c.Verdict == "SAME")
	}
	if r.Ended > 0 {
		fmt.Fprintf(out, "%8d of these links have ended: they respond 410, or redirect to their endedUrl\n", r.Ended)
	}
	for _, l := range r.Losses {
		fmt.Fprintf(out, "%8d lose %s: %s\n", l.Rows, quoted(l.Field), l.Reason)
	}
	if len(r.IgnoredFields) > 0 {
		names := make([]string, 0, len(r.IgnoredFields))
		for _, name := range r.IgnoredFields {
			names = append(names, quoted(name))
		}
		fmt.Fprintln(out, "ignored:", strings.Join(names, ", "))
	}
	for _, h := range r.Hosts {
		target := targets[h.Host]
		if target == "" {
			target = "a domain or the shared codes, which a key with DOMAINS_READ shows"
		}
		fmt.Fprintf(out, "%8d of %s get %s\n", h.Rows, quoted(h.Host), target)
	}
	list := func(rows page[reportedRow], total int64) {
		for _, row := range rows.Nodes {
			fmt.Fprintln(out, row)
		}
		printMore(out, rows.PageInfo.HasNextPage, total-int64(len(rows.Nodes)), failures)
	}
	list(r.Rows, counts["FAILED"]+counts["SKIPPED"])
	list(r.Lossy, 0)
	if counts["CLOSED"] > 0 {
		fmt.Fprintf(out, "%d links respond 404, because what protected them at their source is not known here, or "+
			"they were disabled or used up there. Give each a gate, or a new limit, by updateLink, then restore it by "+
			"restoreLink:\n", counts["CLOSED"])
	}
	list(r.Closed, counts["CLOSED"])
	for _, d := range r.Differences.Nodes {
		fmt.Fprintf(out, "%s %s\n", quoted(d.SourceURL), d.Verdict)
	}
	differing := -counts["SAME"]
	for _, c := range r.Counts {
		differing += c.Links
	}
	printMore(out, r.Differences.PageInfo.HasNextPage, differing-int64(len(r.Differences.Nodes)), failures)
	for _, s := range r.Sections {
		fmt.Fprintf(out, "%8d %s\n", s.Records, s.Kind)
	}
	return isComplete
}

// printMore prints that rows are not shown, and where they are. Their number may be unknown.
func printMore(out io.Writer, hasMore bool, number int64, failures string) {
	if !hasMore {
		return
	}
	where := "--failures FILE writes all of them"
	switch failures {
	case "":
	case standardOutput:
		where = "all of them are above"
	default:
		where = "all of them are in " + quoted(failures)
	}
	if number > 0 {
		fmt.Fprintf(out, "and %d more: %s\n", number, where)
		return
	}
	fmt.Fprintf(out, "and more: %s\n", where)
}

// String describes the row for one line.
func (r reportedRow) String() string {
	text := fmt.Sprintf("line %d, %s, %s", r.Line, quoted(r.SourceID), r.Outcome)
	if err := r.Errors.First(); err != nil {
		text += ": " + err.Error()
	}
	return text + r.lossText()
}

// lossText describes the losses of a row.
func (r reportedRow) lossText() (text string) {
	for _, l := range r.Losses {
		text += fmt.Sprintf("; %s is lost: %s", quoted(l.Field), l.Reason)
		if l.Value != nil {
			text += ", " + manifest.Printable(json.RawMessage(*l.Value))
		}
		if l.Form != nil {
			text += ", is read as " + *l.Form
		}
	}
	return text
}

// writeFailures writes the rows of an import, or the links of a check, that need attention to a CSV
// file.
func (c Client) writeFailures(ctx context.Context, to IO, t *endedTask, name string) error {
	out, err := to.Out, error(nil)
	if name != standardOutput {
		file, err := os.Create(name)
		if err != nil {
			return fmt.Errorf("--failures: %w", err)
		}
		defer file.Close()
		out = file
	}
	table := csv.NewWriter(out)
	switch t.Kind {
	case "IMPORT":
		err = c.writeRows(ctx, table, t)
	case "PARITY_CHECK":
		err = c.writeDifferences(ctx, table, t)
	}
	if table.Flush(); err == nil {
		err = table.Error()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// safe returns the cells of a record that a spreadsheet reads as text.
func safe(cells ...string) []string {
	for i, cell := range cells {
		cells[i] = validate.Cell(cell)
	}
	return cells
}

func (c Client) writeRows(ctx context.Context, table *csv.Writer, t *endedTask) error {
	err := table.Write([]string{"line", "sourceId", "sourceUrl", "outcome", "code", "field", "error", "losses"})
	if err != nil {
		return err
	}
	for _, selection := range []string{"outcomes: [FAILED, SKIPPED]", "outcomes: [CLOSED]",
		"outcomes: [CREATED, UPDATED, UNCHANGED, RENAMED], lossesOnly: true"} {
		query := `query ($id: ID!, $after: String) { node(id: $id) { ... on Task { report { ... on ImportReport {
			list: rows(first: 100, after: $after, ` + selection + `) { nodes { ` + rowFields + ` } ` + pageFields +
			` } } } } } }`
		err := allPages(ctx, c, t.ID, query, func(r reportedRow) error {
			field, message := "", ""
			if len(r.Errors) > 0 {
				field, message = strings.Join(r.Errors[0].Field, "."), r.Errors[0].Message
			}
			return table.Write(safe(strconv.FormatInt(r.Line, 10), r.SourceID, optional.Value(r.SourceURL), r.Outcome,
				optional.Value(r.Code), field, message, strings.TrimPrefix(r.lossText(), "; ")))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c Client) writeDifferences(ctx context.Context, table *csv.Writer, t *endedTask) error {
	err := table.Write([]string{"sourceUrl", "verdict", "sourceStatus", "sourceLocation", "status", "location"})
	if err != nil {
		return err
	}
	query := `query ($id: ID!, $after: String) { node(id: $id) { ... on Task { report { ... on ParityReport {
		list: differences(first: 100, after: $after) { nodes { ` + diffFields + ` } ` + pageFields + ` } } } } } }`
	return allPages(ctx, c, t.ID, query, func(d difference) error {
		status := ""
		if d.SourceStatus != nil {
			status = strconv.Itoa(*d.SourceStatus)
		}
		return table.Write(safe(d.SourceURL, d.Verdict, status, optional.Value(d.SourceLocation),
			strconv.Itoa(d.Status), optional.Value(d.Location)))
	})
}

// allPages calls a function with each element of a list in the report of a task.
func allPages[T any](ctx context.Context, c Client, taskID, query string, each func(T) error) error {
	for after, hasNext := (*string)(nil), true; hasNext; {
		var got struct {
			Node struct{ Report struct{ List page[T] } }
		}
		err := c.doWithRetry(ctx, &got, query, map[string]any{"id": taskID, "after": after})
		if err != nil {
			return err
		}
		list := got.Node.Report.List
		for _, one := range list.Nodes {
			if err := each(one); err != nil {
				return err
			}
		}
		after, hasNext = list.PageInfo.EndCursor, list.PageInfo.HasNextPage
	}
	return nil
}
