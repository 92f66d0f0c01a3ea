package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// TestOutageLog_CountsRepeatedFailures of an outage in place of a line for each, and holds nothing
// else back.
func TestOutageLog_CountsRepeatedFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := newLogger(&out, false, slog.LevelInfo)
		fail := func(n int, message string, err error, more ...any) {
			for range n {
				log.With("node", 1).Log(t.Context(), errs.LogLevel(err), message, append(more, "error", err)...)
			}
		}
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			got := strings.Split(strings.TrimSpace(out.String()), "\n")
			if out.Reset(); len(got) != len(want) && len(got[0])+len(want) > 0 {
				t.Fatalf("%s: %d lines, want %d:\n%s", when, len(got), len(want), strings.Join(got, "\n"))
			}
			for i, text := range want {
				if !strings.Contains(got[i], text) || strings.Contains(got[i], "repeated") != (when == "later") &&
					when != "at the end" {
					t.Errorf("%s: line %q, want %q", when, got[i], text)
				}
			}
		}
		down := errs.New(errs.Unavailable, "The database is unavailable.").Because(syscall.ECONNREFUSED)
		fail(500, "redirect failed", down, "request_id", "x")
		fail(3, "job failed", down, "name", "one")
		fail(1, "job failed", down, "name", "two")
		fail(2, "redirect failed", context.DeadlineExceeded)
		fail(2, "redirect failed", errors.New("a fault"))
		log.Warn("a line")
		log.Warn("a line")
		expect("at once", `level=ERROR msg="redirect failed" node=1 request_id=x`, "name=one", "name=two",
			`level=WARN msg="redirect failed"`, "a fault", "a fault", "a line", "a line")
		time.Sleep(repeatInterval + time.Second) // the intervals end before the test looks
		fail(7, "redirect failed", down)
		expectRepeats(t, &out, "repeated=499", "repeated=2", "repeated=1")
		time.Sleep(repeatInterval)
		expect("later", "repeated=7")
		time.Sleep(repeatInterval)
		expect("after the outage")
		fail(3, "redirect failed", down)
		expect("in the next outage", "redirect failed")
		log.Handler().(outageLog).repeats.close()
		expect("at the end", "repeated=2")
	})
}

// expectRepeats expects lines in any order.
func expectRepeats(t *testing.T, out *bytes.Buffer, want ...string) {
	t.Helper()
	synctest.Wait()
	got := out.String()
	for _, text := range want {
		if !strings.Contains(got, text+"\n") {
			t.Errorf("no line with %s:\n%s", text, got)
		}
	}
	if n := strings.Count(got, "\n"); n != len(want) {
		t.Errorf("%d lines, want %d:\n%s", n, len(want), got)
	}
	out.Reset()
}
