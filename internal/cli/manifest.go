package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/cli/manifest"
)

// manifestFlags are those of commands that read a manifest.
type manifestFlags struct {
	Client
	File  string `short:"f" required:"" type:"existingfile" placeholder:"FILE" help:"The manifest; - is standard input."`
	Prune bool   `help:"Delete links of the owner that are not in the manifest."`
}

type (
	// linksPlan is `linkforge links plan`, linksApply `links apply`, and linksPull `links pull`,
	// clients of the API.
	linksPlan struct {
		manifestFlags
		JSON bool `name:"json" help:"Print JSON."`
	}
	linksApply struct {
		manifestFlags
		Yes     bool `help:"Do not ask."`
		Replace bool `help:"Delete and create again links whose code or strategy is another one."`
	}
	linksPull struct {
		Client
		Owner  string `required:"" help:"The owner of the links."`
		Output string `short:"o" type:"path" placeholder:"FILE" help:"Where to write the manifest. Default: standard output."`
	}
)

// Run prints the difference between a manifest and the links that exist.
func (l linksPlan) Run(ctx context.Context, io IO) error {
	plan, _, err := l.plan(ctx, io)
	if err != nil {
		return err
	}
	if l.JSON {
		text, err := json.MarshalIndent(plan, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintln(io.Out, manifest.Printable(text))
	} else {
		printPlan(io.Out, plan)
	}
	if len(plan.Changes) > 0 {
		return ExitStatus(2)
	}
	return nil
}

// Run makes the links those of a manifest.
func (l linksApply) Run(ctx context.Context, io IO) error {
	plan, workspaceID, err := l.plan(ctx, io)
	if err != nil {
		return err
	}
	printPlan(io.Out, plan)
	switch {
	case len(plan.Changes) == 0:
		return nil
	case plan.Count(manifest.Replace) > 0 && !l.Replace:
		return errors.New("nothing was changed: --replace permits to delete links and create others with other codes")
	case !l.Yes && l.File == standardInput:
		return errNoTerminal
	case !l.Yes:
		if err := confirm(io, "Apply these changes?"); err != nil {
			return err
		}
	}
	run := &applyRun{Client: l.Client, workspaceID: workspaceID, out: io.Out}
	err = run.apply(ctx, plan)
	run.printUndo()
	return err
}

// Run writes the manifest of an owner's links.
func (l linksPull) Run(ctx context.Context, io IO) error {
	owner, err := manifest.CheckOwner(l.Owner)
	if err != nil {
		return fmt.Errorf("--owner: %w", err)
	}
	workspaceID, err := l.workspaceID(ctx)
	if err != nil {
		return err
	}
	r := l.reader(workspaceID)
	if err := r.readOwned(ctx, owner); err != nil {
		return err
	}
	text := manifest.Write(owner, r.links, r.settings)
	if l.Output == "" {
		_, err = io.Out.Write(text)
		return err
	}
	return os.WriteFile(l.Output, text, 0o644) //nolint:gosec // a file for Git
}

// plan reads the manifest and the links, and compares them.
func (f manifestFlags) plan(ctx context.Context, from IO) (*manifest.Plan, string, error) {
	in, err := from.open(f.File)
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, "", err
	}
	file, err := manifest.Parse(text)
	if err != nil {
		name := f.File
		if name == standardInput {
			name = "standard input"
		}
		return nil, "", fmt.Errorf("%s:\n%w", name, err)
	}
	workspaceID, err := f.workspaceID(ctx)
	if err != nil {
		return nil, "", err
	}
	r := f.reader(workspaceID)
	if err := r.read(ctx, file); err != nil {
		return nil, "", err
	}
	plan, err := manifest.NewPlan(file, r.links, r.settings, f.Prune)
	if err != nil {
		return nil, "", err
	}
	return plan, workspaceID, r.readLastChanges(ctx, plan)
}

var errNoTerminal = errors.New("nothing was changed: without a terminal for the question, --yes is needed")

// confirm asks on a terminal. It returns an error unless the answer is yes.
func confirm(io IO, question string) error {
	file, ok := io.In.(*os.File)
	if !ok || !isCharDevice(file) {
		return errNoTerminal
	}
	fmt.Fprint(io.Err, question, " [y/N] ")
	answer, err := bufio.NewReader(file).ReadString('\n')
	if err != nil { // as of /dev/null
		return errNoTerminal
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

// signs begin the lines of changes.
var signs = map[manifest.Action]string{manifest.Create: "+", manifest.Update: "~", manifest.Replace: "-/+",
	manifest.Delete: "-"}

// maxShownValue is how much of a value a line shows, in characters.
const maxShownValue = 500

func printPlan(out io.Writer, plan *manifest.Plan) {
	for _, c := range plan.Changes {
		fmt.Fprintf(out, "%s %s", signs[c.Action], quoted(c.ExternalID))
		if c.LastChange != nil {
			fmt.Fprint(out, ", last changed ", instant(&c.LastChange.At))
			if c.LastChange.By != "" {
				fmt.Fprint(out, " by ", quoted(c.LastChange.By))
			}
		}
		fmt.Fprintln(out)
		for _, d := range c.Differences {
			if c.Action == manifest.Create {
				fmt.Fprintf(out, "    %s: %s\n", d.Field, shown(d.To))
			} else {
				fmt.Fprintf(out, "    %s: %s -> %s\n", d.Field, shown(d.From), shown(d.To))
			}
		}
	}
	fmt.Fprintf(out, "%d to create, %d to update, %d to replace, %d to delete, %d unchanged\n",
		plan.Count(manifest.Create),
		plan.Count(manifest.Update), plan.Count(manifest.Replace), plan.Count(manifest.Delete), plan.Unchanged)
	if plan.Unlisted > 0 {
		fmt.Fprintf(out, "%d links of the owner are not in the manifest: --prune deletes them\n", plan.Unlisted)
	}
}

// shown returns a value for one line.
func shown(value json.RawMessage) string {
	text := manifest.Printable(value)
	if utf8.RuneCountInString(text) <= maxShownValue {
		return text
	}
	return string([]rune(text)[:maxShownValue]) + "…"
}
