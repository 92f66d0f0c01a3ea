package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Program is one that a run needs, and the package of Debian that has it.
type Program struct{ Name, Debian string }

// FindPrograms returns the path of each program, and installs what is missing where it may.
func FindPrograms(ctx context.Context, say func(string, ...any), wanted ...Program) (map[string]string, error) {
	found, missing := lookUp(wanted)
	if len(missing) > 0 && os.Geteuid() == 0 {
		if err := installPackages(ctx, packagesOf(missing), say); err != nil {
			return nil, err
		}
		found, missing = lookUp(wanted)
	}
	if len(missing) == 0 {
		return found, nil
	}
	var names []string
	for _, p := range missing {
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("%s cannot be found, neither on PATH nor where Debian puts them; on Debian and Ubuntu: "+
		"apt-get install %s",
		strings.Join(names, ", "), strings.Join(packagesOf(missing), " "))
}

func lookUp(wanted []Program) (found map[string]string, missing []Program) {
	found = map[string]string{}
	for _, p := range wanted {
		path := filepath.Join(PostgresFolder(), p.Name) // so that PostgreSQL's programs are all of one version
		if p.Debian != "postgresql" {
			var err error
			if path, err = exec.LookPath(p.Name); err != nil {
				path = filepath.Join("/usr/sbin", p.Name)
			}
		}
		if !isProgram(path) {
			missing = append(missing, p)
			continue
		}
		found[p.Name] = path
	}
	return found, missing
}

func packagesOf(missing []Program) (packages []string) {
	for _, p := range missing {
		packages = append(packages, p.Debian)
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// PostgresFolder is that of PATH, else of the newest version in Debian's place; empty when there is
// none.
func PostgresFolder() string {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is right
	if len(folders) == 0 {
		return ""
	}
	return slices.MaxFunc(folders, func(a, b string) int { return versionIn(a) - versionIn(b) })
}

func versionIn(folder string) int {
	version, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder))) // none is older than any
	return version
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// servicePolicy keeps Debian's packages from starting their services when they are installed.
const servicePolicy = "/usr/sbin/policy-rc.d"

// installPackages does nothing where there is no apt-get.
func installPackages(ctx context.Context, packages []string, say func(string, ...any)) (err error) {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return nil
	}
	say("installing %s", strings.Join(packages, " "))
	policy, err := os.OpenFile(servicePolicy, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, os.Remove(servicePolicy)) }()
		_, err = policy.WriteString("#!/bin/sh\nexit 101\n")
		if err = errors.Join(err, policy.Close()); err != nil {
			return err
		}
	case !errors.Is(err, os.ErrExist): // else somebody has decided already
		return err
	}
	options := []string{"-qq", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300"}
	for _, command := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"},
		packages...)} {
		cmd := exec.CommandContext(ctx, apt, append(slices.Clone(options), command...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", command[0], err, bytes.TrimSpace(out))
		}
	}
	return nil
}
