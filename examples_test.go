package linkforge_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// registryUnavailable matches what npm prints when it cannot reach its registry.
var registryUnavailable = regexp.MustCompile(
	`code (ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|ERR_SOCKET_TIMEOUT)`)

// TestExamples_Build checks the types of the examples in TypeScript against the schema, and bundles the front end.
func TestExamples_Build(t *testing.T) {
	t.Parallel()
	proctest.SkipShort(t)
	requireNode(t, 20, 19)
	for folder, build := range map[string][]string{
		"examples/web": {"run", "build"},
		// A test of package server may be running what dist contains.
		"examples/webhooks/typescript": {"exec", "--", "tsc", "--noEmit"},
	} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			if !installed(folder) {
				if out, err := npm(t, folder, "ci", "--prefer-offline", "--no-audit", "--no-fund"); err != nil {
					if registryUnavailable.MatchString(out) {
						t.Skipf("npm cannot download the packages of %s:\n%s", folder, out)
					}
					t.Fatalf("npm ci: %v\n%s", err, out)
				}
			}
			if out, err := npm(t, folder, build...); err != nil {
				t.Errorf("npm %q: %v\n%s", build, err, out)
			}
		})
	}
}

// requireNode skips the test where there is no Node.js and npm, or an older one.
func requireNode(t *testing.T, major, minor int) {
	t.Helper()
	version, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err != nil {
		t.Skipf("Node.js is not installed: %v", err)
	}
	var gotMajor, gotMinor int
	must.Value(fmt.Sscanf(string(version), "v%d.%d.", &gotMajor, &gotMinor))(t)
	if gotMajor < major || gotMajor == major && gotMinor < minor {
		t.Skipf("Node.js %d.%d is older than %d.%d", gotMajor, gotMinor, major, minor)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skipf("npm is not installed: %v", err)
	}
}

// installed reports whether npm has installed the packages since the lock file changed.
func installed(folder string) bool {
	lock, err := os.Stat(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return false
	}
	packages, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json"))
	return err == nil && packages.ModTime().After(lock.ModTime())
}

func npm(t *testing.T, folder string, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "npm", arguments...)
	command.Dir = folder
	out, err := command.CombinedOutput()
	return string(out), err
}
