// Command release builds the archives of a release: for each system an archive with the static
// binary and its bill of materials, and the checksums of all. Run it at the root of a clean
// checkout. The same commit and version of Go produce the same bytes on any machine.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// usualTargets are the systems that a release is for.
const usualTargets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"

// noticeFile lists the components of the playground's page.
const noticeFile = "graph/playground/NOTICE"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	version := flags.String("version", "", "what \"linkforge version\" says; the commit when empty")
	folder := flags.String("out", "dist", "folder of the result; an earlier one is removed")
	targets := flags.String("targets", usualTargets, "systems, with commas between them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	commit, at, err := describe(ctx)
	if err != nil {
		return err
	}
	if *version == "" {
		*version = commit[:12]
	}
	if err := prepare(*folder); err != nil {
		return err
	}
	for target := range strings.SplitSeq(*targets, ",") {
		goos, goarch, ok := strings.Cut(target, "/")
		if !ok {
			return fmt.Errorf("-targets: %q is no system and architecture, as in linux/amd64", target)
		}
		r := release{version: *version, goos: goos, goarch: goarch, at: at, folder: *folder}
		if err := r.make(ctx); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	return sum(*folder, out)
}

// prepare creates the folder, and removes files of an earlier release.
func prepare(folder string) error {
	left, err := filepath.Glob(filepath.Join(folder, "linkforge_*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return os.MkdirAll(folder, 0o755)
}

// describe returns the checked-out commit and its time. It refuses a modified tree, because the
// build would not be reproducible.
func describe(ctx context.Context) (commit string, at time.Time, err error) {
	changed, err := git(ctx, "status", "--porcelain")
	if err != nil {
		return "", at, err
	}
	if changed != "" {
		return "", at, errors.New("the tree is not what was committed: commit, or build in a clone")
	}
	if commit, err = git(ctx, "rev-parse", "HEAD"); err != nil {
		return "", at, err
	}
	text, err := git(ctx, "log", "-1", "--format=%ct")
	if err != nil {
		return "", at, err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	return commit, time.Unix(seconds, 0).UTC(), err
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// release is the build for one system.
type release struct {
	version, goos, goarch string
	at                    time.Time
	folder                string
}

func (r release) name() string {
	return "linkforge_" + r.version + "_" + r.goos + "_" + r.goarch
}

// make writes the archive and the bill of materials.
func (r release) make(ctx context.Context) error {
	scratch, err := os.MkdirTemp("", "linkforge-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	binary := filepath.Join(scratch, "linkforge")
	if err := r.build(ctx, binary); err != nil {
		return err
	}
	if err := r.writeArchive(binary); err != nil {
		return err
	}
	return r.writeBill(binary)
}

// build builds the binary. Its linker's id and the paths of the machine are left out, since they
// differ from machine to machine; which commit it is stays in.
func (r release) build(ctx context.Context, binary string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-mod=readonly",
		"-ldflags", "-s -w -buildid= -X github.com/linkforge/linkforge/internal/cli.release="+r.version, "-o", binary,
		"./server")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+r.goos, "GOARCH="+r.goarch, "GOAMD64=v1",
		"GOARM64=v8.0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building: %w\n%s", err, out)
	}
	return nil
}

func (r release) writeArchive(binary string) error {
	return write(filepath.Join(r.folder, r.name()+".tar.gz"), func(w io.Writer) error {
		return archive(w, r.name(), r.at, []entry{
			{"LICENSE", "LICENSE", 0o644}, {"NOTICE", noticeFile, 0o644}, {"README.md", "README.md", 0o644},
			{"linkforge", binary, 0o755},
		})
	})
}

func (r release) writeBill(binary string) error {
	notice, err := os.ReadFile(noticeFile)
	if err != nil {
		return err
	}
	return write(filepath.Join(r.folder, r.name()+".cdx.json"), func(w io.Writer) error {
		return bill(w, binary, notice, r.version, r.at)
	})
}

// write makes a file, which is complete or an error.
func write(path string, fill func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Close())
}

// sum writes the checksums of the folder's files in the format of sha256sum, to a file there and to
// out.
func sum(folder string, out io.Writer) error {
	paths, err := filepath.Glob(filepath.Join(folder, "linkforge_*"))
	if err != nil {
		return err
	}
	slices.Sort(paths)
	return write(filepath.Join(folder, "SHA256SUMS"), func(sums io.Writer) error {
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(io.MultiWriter(sums, out), "%x  %s\n", sha256.Sum256(content),
				filepath.Base(path)); err != nil {
				return err
			}
		}
		return nil
	})
}
