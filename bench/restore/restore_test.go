package main

import (
	"os/exec"
	"testing"
)

// TestAComplaintIsAFailure: psql says on standard error what it could not restore, and ends well.
func TestAComplaintIsAFailure(t *testing.T) {
	t.Parallel()
	for script, well := range map[string]bool{"exit 0": true, "echo fine": true, "echo ERROR >&2": false, "exit 1": false} {
		if err := said(exec.CommandContext(t.Context(), "sh", "-c", script)); (err == nil) != well {
			t.Errorf("%q: %v", script, err)
		}
	}
}

func TestCodesAreGivenOnce(t *testing.T) {
	t.Parallel()
	e := &estate{given: map[string]bool{}}
	if e.give("a") || e.give("b") || !e.give("a") {
		t.Error("what was given before is not known")
	}
}
