package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
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
		expect := func(when string, want ...string) { // each in a line of its own
			t.Helper()
			synctest.Wait()
			got := slices.Collect(strings.Lines(out.String()))
			out.Reset()
			if len(got) != len(want) {
				t.Errorf("%s: %d lines, want %d: %q", when, len(got), len(want), got)
			}
			for _, text := range want {
				isRepeat := strings.Contains(text, "repeated")
				i := slices.IndexFunc(got, func(line string) bool {
					return strings.Contains(line, text) && strings.Contains(line, "repeated") == isRepeat
				})
				if i < 0 {
					t.Fatalf("%s: no line with %s: %q", when, text, got)
				}
				got = slices.Delete(got, i, i+1)
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
		expect("after the intervals", "repeated=499\n", "repeated=2\n", "repeated=1\n")
		time.Sleep(repeatInterval)
		expect("later", "repeated=7\n")
		time.Sleep(repeatInterval)
		expect("after the outage")
		fail(3, "redirect failed", down)
		expect("in the next outage", "redirect failed")
		log.Handler().(outageLog).repeats.close()
		expect("at the end", "repeated=2\n")
	})
}
