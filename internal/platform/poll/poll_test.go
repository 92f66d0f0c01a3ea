package poll

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
)

func TestEvery_LogsTheFirstFailureOfASeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		results, calls := []error{nil, errors.New("one"), errors.New("two"), nil, errors.New("three")}, 0
		began := time.Now()
		failures := Failures{Log: slog.New(slog.NewTextHandler(&logged, nil)), Message: "polling failed"}
		Every(ctx, time.Minute, failures, func(context.Context) error {
			defer func() { calls++ }()
			if calls == len(results) {
				cancel()
				return errors.New("interrupted")
			}
			return results[calls]
		})
		if calls != len(results)+1 || time.Since(began) != time.Duration(calls)*time.Minute {
			t.Errorf("%d calls in %s, want one a minute, %d in all", calls, time.Since(began), len(results)+1)
		}
		if got := logged.String(); strings.Count(got, "polling failed") != 2 || strings.Contains(got, "two") ||
			strings.Contains(got, "interrupted") {
			t.Errorf("logged %s, want the errors one and three", got)
		}
	})
}

func TestFiles_Changed(t *testing.T) {
	t.Parallel()
	for _, skipMissing := range []bool{false, true} {
		dir := t.TempDir()
		one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
		write := func(path, content string) {
			t.Helper()
			must.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		}
		write(one, "1")
		write(two, "2")
		f := NewFiles(skipMissing, one, two)
		want := func(when string, want bool) {
			t.Helper()
			if got := f.Changed(); got != want {
				t.Errorf("skipMissing %t, %s: changed is %t, want %t", skipMissing, when, got, want)
			}
		}
		want("at first", false)
		write(one, "longer")
		want("a file was written", true)
		want("nothing happened since", false)
		must.NoError(t, os.Remove(two))
		want("a file was removed", !skipMissing)
		want("it is still missing", false)
		write(one, "even longer")
		write(two, "2")
		want("it is back", true)
	}
}

// TestFailures_LogsTimeoutsAsWarnings, and the first error of each level of a series.
func TestFailures_LogsTimeoutsAsWarnings(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	f := Failures{Log: slog.New(slog.NewTextHandler(&logged, nil)), Message: "polling failed"}
	for _, err := range []error{
		context.DeadlineExceeded, context.DeadlineExceeded, errors.New("down"), context.DeadlineExceeded, errors.New(
			"down"), nil,
		context.DeadlineExceeded,
	} {
		f.Report(t.Context(), err)
	}
	levels := regexp.MustCompile("level=[A-Z]+").FindAllString(logged.String(), -1)
	if got := strings.Join(levels, " "); got != "level=WARN level=ERROR level=WARN" {
		t.Errorf("logged %s", logged.String())
	}
}
