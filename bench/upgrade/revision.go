package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/migrations"
)

// firstStep is the last step of the schema of the oldest version that can be upgraded under load.
// Of those before, 0007_stats renames and replaces the tables that they write clicks into and begin
// monthly quotas from: see docs/OPERATIONS.md, "Upgrade".
const firstStep = "0007_stats"

const upSuffix = ".up.sql"

// revision is a version of the past.
type revision struct {
	hash, subject string
	// steps are those of its schema, by name.
	steps []string
}

// findRevision is the one that was asked for, or the oldest whose schema has the first step and is
// one that today's begins with.
func findRevision(ctx context.Context, asked string) (revision, error) {
	if asked != "" {
		r, err := readRevision(ctx, asked)
		if err == nil && !beginsToday(ctx, r) {
			err = fmt.Errorf("the migrations of %s are not those that today's begin with: its databases cannot be upgraded",
				asked)
		}
		return r, err
	}
	out, err := git(ctx, "log", "--reverse", "--format=%H", "--", "migrations")
	if err != nil {
		return revision{}, err
	}
	for hash := range strings.FieldsSeq(string(out)) {
		r, err := readRevision(ctx, hash)
		if err != nil {
			return r, err
		}
		if slices.Contains(r.steps, firstStep) && beginsToday(ctx, r) {
			return r, nil
		}
	}
	return revision{}, fmt.Errorf("no commit has the schema of %s", firstStep)
}

func readRevision(ctx context.Context, name string) (r revision, err error) {
	out, err := git(ctx, "log", "-1", "--format=%h %s", name, "--")
	if err != nil {
		return r, err
	}
	r.hash, r.subject, _ = strings.Cut(strings.TrimSpace(string(out)), " ")
	files, err := git(ctx, "ls-tree", "--name-only", r.hash, "migrations/postgres/")
	if err != nil {
		return r, err
	}
	for file := range strings.FieldsSeq(string(files)) {
		if step, up := strings.CutSuffix(path.Base(file), upSuffix); up {
			r.steps = append(r.steps, step)
		}
	}
	if len(r.steps) == 0 {
		return r, fmt.Errorf("%s has no migrations", name)
	}
	return r, nil
}

// beginsToday says that today's migrations begin with the revision's, to the letter, in both
// dialects.
func beginsToday(ctx context.Context, r revision) bool {
	for _, kind := range []string{"postgres", "sqlite"} {
		for i, step := range todaysSteps() {
			if i == len(r.steps) {
				break
			}
			file := kind + "/" + step + upSuffix
			today, err := migrations.Files.ReadFile(file)
			if err != nil || r.steps[i] != step {
				return false
			}
			then, err := git(ctx, "show", r.hash+":migrations/"+file)
			if err != nil || !bytes.Equal(then, today) {
				return false
			}
		}
	}
	return len(r.steps) <= len(todaysSteps())
}

// todaysSteps are the names of this tree's migrations, in order.
func todaysSteps() (steps []string) {
	entries, err := migrations.Files.ReadDir("postgres")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, e := range entries {
		if step, up := strings.CutSuffix(e.Name(), upSuffix); up {
			steps = append(steps, step)
		}
	}
	return steps
}

// build builds the revision's server: its files are unpacked into a folder of their own, and the
// repository stays as it is.
func (r revision) build(ctx context.Context, folder, binary string) error {
	archive, err := git(ctx, "archive", "--format=tar", r.hash)
	if err != nil {
		return err
	}
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", folder)
	unpack.Stdin = bytes.NewReader(archive)
	if out, err := unpack.CombinedOutput(); err != nil {
		return fmt.Errorf("unpacking %s: %w\n%s", r.hash, err, out)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./server")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", r.hash, err, out)
	}
	return nil
}

// git only reads. It is run at the root, where paths are those of the repository.
func git(ctx context.Context, args ...string) ([]byte, error) {
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return nil, fmt.Errorf("the early version is in the git repository, which is not to be found here: %w", err)
	}
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", strings.TrimSpace(string(root))}, args...)...)
	out, err := cmd.Output()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(failed.Stderr))
	}
	return out, err
}
