// Package proctest prepares child processes of tests. Every test that starts a program
// calls SkipShort, so that the quick loop, go test -short, starts none.
package proctest

import (
	"os"
	"os/exec"
	"testing"
)

// SkipShort skips the test under -short.
func SkipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
}

// Self prepares a process that runs one test of this binary, with further environment variables.
// The process is killed when the test ends. Under -short the calling test is skipped.
func Self(t testing.TB, test string, env ...string) *exec.Cmd {
	t.Helper()
	SkipShort(t)
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.timeout=1m")
	process.Env = append(os.Environ(), env...)
	process.Stderr = os.Stderr
	return process
}
