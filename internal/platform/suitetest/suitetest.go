// Package suitetest selects how much of the suite runs. make test runs a quick selection of the
// exhaustive tests, and one representative of each kind of fault. make test-exhaustive, test-faults
// and test-all run the rest, by two environment variables.
package suitetest

import (
	"os"
	"strings"
	"testing"
)

const (
	// exhaustiveVariable turns selections off if it is "on".
	exhaustiveVariable = "LINKFORGE_TEST_EXHAUSTIVE"
	// faultsVariable runs the tests that call Fault if it is "on".
	faultsVariable = "LINKFORGE_TEST_FAULTS"
	// faultPrefix is how make test-faults finds the tests that call Fault.
	faultPrefix = "TestFault_"
)

// Exhaustive reports whether tests try everything that they can, instead of a quick selection.
func Exhaustive() bool { return os.Getenv(exhaustiveVariable) == "on" }

// Size returns quick, or full if tests are exhaustive. It selects numbers of seeds, rows and
// repetitions.
func Size[T any](quick, full T) T {
	if Exhaustive() {
		return full
	}
	return quick
}

// ExhaustiveOnly skips a test unless tests are exhaustive. Another test that always runs proves the
// same promise.
func ExhaustiveOnly(t testing.TB) {
	t.Helper()
	if !Exhaustive() {
		t.Skip("runs by make test-exhaustive")
	}
}

// Fault skips a test that kills, interrupts or attacks servers, unless the run includes faults. The
// name of the test starts with "TestFault_". Each invariant of docs/ARCHITECTURE.md also has a test
// that always runs.
func Fault(t testing.TB) {
	t.Helper()
	if !strings.HasPrefix(t.Name(), faultPrefix) {
		t.Fatalf("a test that calls Fault is named %s…", faultPrefix)
	}
	if os.Getenv(faultsVariable) != "on" {
		t.Skip("runs by make test-faults")
	}
}
