package cli

import (
	"context"
	"errors"
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
		var got struct {
			RevertOperation struct {
				Results []struct {
					LinkID string
					Errors UserErrors
				}
				Remaining int
				Errors    UserErrors
			}
		}
		err := l.doWithRetry(ctx, &got, `mutation ($in: RevertOperationInput!) { revertOperation(input: $in) {
			results { linkId errors { message field } } remaining errors { message field } } }`,
			map[string]any{"in": map[string]any{"workspaceId": workspaceID, "operationId": l.Operation}})
		if err == nil {
			err = got.RevertOperation.Errors.First()
		}
		if err != nil {
			return err
		}
		remaining = got.RevertOperation.Remaining
		for _, r := range got.RevertOperation.Results {
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
	if l.Failures != "" && !l.Wait {
		return errors.New("--failures needs --wait; or name the file with: linkforge tasks watch ID --failures FILE")
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
	var got struct {
		CheckParity struct {
			Task   *struct{ ID string }
			Errors UserErrors
		}
	}
	err = l.Do(ctx, &got, `mutation ($in: CheckParityInput!) { checkParity(input: $in) {
		task { id } errors { message field } } }`, map[string]any{"in": in})
	if err == nil {
		err = got.CheckParity.Errors.First()
	}
	if err != nil {
		return err
	}
	if l.Wait {
		return l.watch(ctx, io, got.CheckParity.Task.ID, l.Failures)
	}
	_, err = fmt.Fprintf(io.Out, "%s\nwatch it with: linkforge tasks watch %[1]s\n", got.CheckParity.Task.ID)
	return err
}
