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
		expect := func(when string, isRepeat bool, want ...string) { // a line each, in any order
			t.Helper()
			synctest.Wait()
			got := out.String()
			out.Reset()
			if strings.Count(got, "\n") != len(want) || strings.Contains(got, "repeated") != isRepeat {
				t.Errorf("%s: want %q:\n%s", when, want, got)
			}
			for _, text := range want {
				if !strings.Contains(got, text) {
					t.Errorf("%s: no line with %s:\n%s", when, text, got)
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
		expect("at once", false, `level=ERROR msg="redirect failed" node=1 request_id=x`, "name=one", "name=two",
			`level=WARN msg="redirect failed"`, "a fault", "a fault", "a line", "a line")
		time.Sleep(repeatInterval + time.Second) // the intervals end before the test looks
		fail(7, "redirect failed", down)
		expect("later", true, "repeated=499\n", "repeated=2\n", "repeated=1\n")
		time.Sleep(repeatInterval)
		expect("later", true, "repeated=7\n")
		time.Sleep(repeatInterval)
		expect("after the outage", false)
		fail(3, "redirect failed", down)
		expect("in the next outage", false, "redirect failed")
		log.Handler().(outageLog).repeats.close()
		expect("at the end", true, "repeated=2\n")
	})
}
