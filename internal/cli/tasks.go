package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

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
		failuresFlag
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

const taskFields = "id kind status done total createdAt"

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
	got, err := mutate[struct{ Task *listedTask }](ctx, c.Client, "cancelTask", map[string]any{"id": c.ID},
		"task { "+taskFields+" }")
	if err != nil {
		return err
	}
	t := got.Task
	return showOne(io, c.listing, t, "%s is %s after %s", t.ID, t.Status, t.progress())
}

// Run shows the progress of a task.
func (w tasksWatch) Run(ctx context.Context, io IO) error { return w.watch(ctx, io, w.ID, w.Failures) }

// startedTask is the payload of a mutation that starts a task.
type startedTask struct {
	Task      *struct{ ID string }
	UploadURL *string
}

// follow watches a task that was started, or prints how to do so.
func (c Client) follow(ctx context.Context, io IO, taskID string, wait bool, failures string) error {
	if wait {
		return c.watch(ctx, io, taskID, failures)
	}
	_, err := fmt.Fprintf(io.Out, "%s\nwatch it with: linkforge tasks watch %[1]s\n", taskID)
	return err
}

// watch shows the progress of a task on a terminal, and its result when it ends. It writes the
// failures to a file with the name, unless that is empty.
func (c Client) watch(ctx context.Context, io IO, taskID, failures string) error {
	terminal := isTerminal(io.Err)
	for {
		var got struct{ Node *listedTask }
		err := c.doWithRetry(ctx, &got, `query ($id: ID!) { node(id: $id) { ... on Task { `+taskFields+` } } }`,
			map[string]any{"id": taskID})
		if err == nil && (got.Node == nil || got.Node.ID == "") {
			err = errNoTask(taskID)
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
			return c.result(ctx, io, taskID, failures)
		}
		if err := poll.Wait(ctx, watchPause); err != nil {
			return err
		}
	}
}

func errNoTask(taskID string) error { return fmt.Errorf("there is no task %s", quoted(taskID)) }

// isTerminal reports whether a person sees what is written.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
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
func (t *listedTask) bar() string {
	const width = 30
	filled := 0
	if t.Total != nil && *t.Total > 0 {
		filled = int(min(width, width*t.Done / *t.Total))
	}
	return "[" + strings.Repeat("#", filled) + strings.Repeat("-", width-filled) + "]"
}
