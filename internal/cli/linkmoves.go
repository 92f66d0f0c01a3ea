package cli

import (
	"context"
	"fmt"
)

type (
	// linksUndo is `linkforge links undo`, and linksParity `links parity`, clients of the API.
	linksUndo struct {
		Client
		Operation string `arg:"" help:"The operation's id, opn_ and 26 characters, as imports and links apply print it."`
	}
	linksParity struct {
		Client
		failuresFlag
		Import string `placeholder:"TASK" help:"Check the links of this import, by its task. Default: all imported links."`
		Sample int    `placeholder:"N" help:"Check at most this number of short URLs, the same ones each time. Default: all."`
		Wait   bool   `help:"Wait for the end, and show the result; exit status 2 if links differ."`
	}
)

// Run undoes an operation, in as many calls as that takes.
func (l linksUndo) Run(ctx context.Context, io IO) error {
	workspaceID, err := l.workspaceID(ctx)
	if err != nil {
		return err
	}
	undone, refused := map[string]bool{}, map[string]bool{}
	for remaining := 1; remaining > 0; {
		got, err := mutate[struct {
			Results []struct {
				LinkID string
				Errors UserErrors
			}
			Remaining int
		}](ctx, l.Client, "revertOperation", map[string]any{"workspaceId": workspaceID, "operationId": l.Operation},
			"results { linkId errors { message field } } remaining")
		if err != nil {
			return err
		}
		remaining = got.Remaining
		for _, r := range got.Results {
			err := r.Errors.First()
			if err == nil {
				undone[r.LinkID] = true
				continue
			}
			if refused[r.LinkID] = true; len(refused) <= mostShown {
				fmt.Fprintf(io.Out, "%s: %s\n", r.LinkID, err)
			}
		}
	}
	if more := len(refused) - mostShown; more > 0 {
		fmt.Fprintf(io.Out, "and %d more\n", more)
	}
	fmt.Fprintf(io.Out, "%d links are as before %s, %d are not\n", len(undone), l.Operation, len(refused))
	if len(refused) > 0 {
		return ExitStatus(2)
	}
	return nil
}

// Run starts a check of parity.
func (l linksParity) Run(ctx context.Context, io IO) error {
	if err := l.check(l.Wait); err != nil {
		return err
	}
	workspaceID, err := l.workspaceID(ctx)
	if err != nil {
		return err
	}
	in := map[string]any{"workspaceId": workspaceID}
	if l.Import != "" {
		in["importId"] = l.Import
	}
	if l.Sample != 0 {
		in["sample"] = l.Sample
	}
	got, err := mutate[startedTask](ctx, l.Client, "checkParity", in, "task { id }")
	if err != nil {
		return err
	}
	return l.follow(ctx, io, got.Task.ID, l.Wait, l.Failures)
}
