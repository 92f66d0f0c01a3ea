package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

// tasksCommand is `linkforge tasks list|watch|cancel`, a client of the API.
type tasksCommand struct {
	List   tasksList   `cmd:"" help:"List the tasks of a workspace, newest first."`
	Watch  tasksWatch  `cmd:"" help:"Show the progress of a task until it ends, and its result; exit status 2 if rows failed or were skipped."`
	Cancel tasksCancel `cmd:"" help:"Cancel a task."`
}

type (
	tasksList struct {
		listing
		Client
		Limit int `default:"20" help:"Maximum number, 1 to 100."`
	}
	tasksWatch struct {
		Client
		ID string `arg:"" help:"The task's id."`
	}
	tasksCancel struct {
		listing
		Client
		ID string `arg:"" help:"The task's id."`
	}
)

// listedTask is a task as lists have it.
type listedTask struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Status    string    `json:"status"`
	Done      int64     `json:"done"`
	Total     *int64    `json:"total"`
	CreatedAt time.Time `json:"createdAt"`
}

// watchedTask is a task with its result.
type watchedTask struct {
	listedTask
	Failure *userError
	Report  *taskReport
}

// taskReport is the result of an import, a check of parity or an export.
type taskReport struct {
	DryRun      bool
	OperationID *string
	Counts      []struct {
		Outcome, Verdict string
		Rows, Links      int64
	}
	Losses []struct {
		Field, Reason string
		Rows          int64
	}
	Rows struct {
		Nodes []struct {
			Line     int64
			SourceID string
			Outcome  string
			Errors   UserErrors
		}
	}
	Differences struct {
		Nodes []struct{ SourceURL, Verdict string }
	}
	Sections []struct {
		Kind    string
		Records int64
	}
	URL, SHA256 *string
	RemovedAt   *time.Time
}

const (
	taskFields   = "id kind status done total createdAt"
	reportFields = `failure { message } report {
		... on ImportReport { dryRun operationId counts { outcome rows } losses { field reason rows }
			rows(first: 20, outcomes: [FAILED, SKIPPED]) { nodes { line sourceId outcome errors { message field } } } }
		... on ParityReport { counts { verdict links } differences(first: 20) { nodes { sourceUrl verdict } } }
		... on WorkspaceArchive { sections { kind records } url sha256 removedAt } }`
)

// watchPause is the time between two looks at a task.
const watchPause = time.Second

// Run lists tasks.
func (l tasksList) Run(ctx context.Context, io IO) error {
	workspaceID, err := l.workspaceID(ctx)
	if err != nil {
		return err
	}
	var got struct {
		Workspace struct {
			Tasks struct{ Nodes []*listedTask }
		}
	}
	err = l.Do(ctx, &got, `query ($w: ID!, $n: Int!) { workspace(by: {id: $w}) { tasks(first: $n) { nodes { `+
		taskFields+` } } } }`,
		map[string]any{"w": workspaceID, "n": l.Limit})
	if err != nil {
		return err
	}
	return show(io, l.listing, "ID\tKIND\tSTATUS\tDONE\tCREATED", got.Workspace.Tasks.Nodes,
		func(t *listedTask) []string {
			return []string{t.ID, t.Kind, t.Status, t.progress(), instant(&t.CreatedAt)}
		})
}

// Run cancels a task.
func (c tasksCancel) Run(ctx context.Context, io IO) error {
	var got struct {
		CancelTask struct {
			Task   *listedTask
			Errors UserErrors
		}
	}
	err := c.Do(ctx, &got, `mutation ($id: ID!) { cancelTask(input: {id: $id}) { task { `+taskFields+
		` } errors { message field } } }`,
		map[string]any{"id": c.ID})
	if err == nil {
		err = got.CancelTask.Errors.First()
	}
	if err != nil {
		return err
	}
	t := got.CancelTask.Task
	return showOne(io, c.listing, t, "%s is %s after %s", t.ID, t.Status, t.progress())
}

// Run shows the progress of a task.
func (w tasksWatch) Run(ctx context.Context, io IO) error { return w.watch(ctx, io, w.ID) }

// watch shows the progress of a task on a terminal, and its result when it ends.
func (c Client) watch(ctx context.Context, io IO, taskID string) error {
	terminal := isTerminal(io)
	for {
		var got struct{ Node *watchedTask }
		err := c.Do(ctx, &got, `query ($id: ID!) { node(id: $id) { ... on Task { `+taskFields+" "+reportFields+` } } }`,
			map[string]any{"id": taskID})
		if err == nil && (got.Node == nil || got.Node.ID == "") {
			err = fmt.Errorf("there is no task %s", quoted(taskID))
		}
		if err != nil {
			return err
		}
		if terminal {
			fmt.Fprintf(io.Err, "\r%s %-10s %s\x1b[K", got.Node.bar(), got.Node.Status, got.Node.progress())
		}
		switch got.Node.Status {
		case "SUCCEEDED", "FAILED", "CANCELED":
			if terminal {
				fmt.Fprintln(io.Err)
			}
			return got.Node.print(io)
		}
		if err := poll.Wait(ctx, watchPause); err != nil {
			return err
		}
	}
}

func isTerminal(io IO) bool {
	file, ok := io.Err.(*os.File)
	return ok && isCharDevice(file)
}

func isCharDevice(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (t *listedTask) progress() string {
	if t.Total == nil {
		return fmt.Sprintf("%d", t.Done)
	}
	return fmt.Sprintf("%d of %d", t.Done, *t.Total)
}

// bar is a bar of 30 characters.
func (t *watchedTask) bar() string {
	const width = 30
	filled := 0
	if t.Total != nil && *t.Total > 0 {
		filled = int(min(width, width*t.Done / *t.Total))
	}
	return "[" + strings.Repeat("#", filled) + strings.Repeat("-", width-filled) + "]"
}

// print prints the result. It returns ExitStatus 2 if rows failed or were skipped, or links differ.
func (t *watchedTask) print(io IO) error {
	fmt.Fprintf(io.Out, "%s %s: %s\n", t.ID, t.Status, t.progress())
	if t.Failure != nil {
		fmt.Fprintln(io.Out, t.Failure.Message)
	}
	isComplete := t.Status == "SUCCEEDED"
	if r := t.Report; r != nil {
		for _, c := range r.Counts {
			fmt.Fprintf(io.Out, "%8d %s%s\n", c.Rows+c.Links, c.Outcome, c.Verdict)
			isComplete = isComplete && c.Outcome != "FAILED" && c.Outcome != "SKIPPED" &&
				(c.Verdict == "" || c.Verdict == "SAME")
		}
		for _, l := range r.Losses {
			fmt.Fprintf(io.Out, "%8d lose %s: %s\n", l.Rows, quoted(l.Field), l.Reason)
		}
		for _, row := range r.Rows.Nodes {
			message := ""
			if err := row.Errors.First(); err != nil {
				message = ": " + err.Error()
			}
			fmt.Fprintf(io.Out, "line %d, %s, %s%s\n", row.Line, quoted(row.SourceID), row.Outcome, message)
		}
		for _, d := range r.Differences.Nodes {
			fmt.Fprintf(io.Out, "%s %s\n", quoted(d.SourceURL), d.Verdict)
		}
		for _, s := range r.Sections {
			fmt.Fprintf(io.Out, "%8d %s\n", s.Records, s.Kind)
		}
		switch {
		case r.URL != nil:
			fmt.Fprintf(io.Out, "until %s, for an hour at a time: %s\nSHA-256 %s\n", instant(r.RemovedAt), *r.URL,
				optional.Value(r.SHA256))
		case r.OperationID != nil:
			fmt.Fprintf(io.Out, "undo it with revertOperation: %s\n", *r.OperationID)
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
