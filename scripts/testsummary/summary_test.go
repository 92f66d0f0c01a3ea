package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		events  string
		require string
		want    []string // lines, in this order, with others between them
		last    string
		err     string
	}{
		{
			name: "passed tests are counted by leaf and backend",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/postgres"}
{"Action":"run","Package":"p","Test":"TestA/postgres/one"}
{"Action":"output","Package":"p","Test":"TestA/postgres/one","Output":"not shown\n"}
{"Action":"pass","Package":"p","Test":"TestA/postgres/one"}
{"Action":"run","Package":"p","Test":"TestA/postgres/two"}
{"Action":"pass","Package":"p","Test":"TestA/postgres/two"}
{"Action":"pass","Package":"p","Test":"TestA/postgres"}
{"Action":"run","Package":"p","Test":"TestA/redis#01"}
{"Action":"pass","Package":"p","Test":"TestA/redis#01"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}`,
			require: "postgres,redis",
			want:    []string{"ok  \tp\t0.1s", "ran: 0 on sqlite, 2 on postgres, 0 on miniredis, 1 on redis"},
			last:    "3 passed, 0 failed, 0 skipped",
		},
		{
			name: "a required backend without a test fails the run",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestB/postgres"}
{"Action":"output","Package":"p","Test":"TestB/postgres","Output":"=== RUN   TestB/postgres\n"}
{"Action":"output","Package":"p","Test":"TestB/postgres","Output":"    b_test.go:7: no database\n"}
{"Action":"skip","Package":"p","Test":"TestB/postgres"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p"}`,
			require: "postgres",
			want:    []string{"skipped: p TestB/postgres: b_test.go:7: no database", "failed: no test ran on postgres"},
			last:    "1 passed, 1 failed, 1 skipped",
			err:     "no test ran on postgres",
		},
		{
			name: "a failed subtest is shown and counted without its parent",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/sqlite"}
{"Action":"output","Package":"p","Test":"TestA/sqlite","Output":"    a_test.go:9: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestA/sqlite"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- FAIL: TestA\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}`,
			want: []string{"    a_test.go:9: wrong", "--- FAIL: TestA", "FAIL\tp\t0.1s", "failed: p TestA/sqlite"},
			last: "0 passed, 1 failed, 0 skipped",
			err:  "1 failed",
		},
		{
			name: "a parent that fails by itself is counted",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			want: []string{"failed: p TestA"},
			last: "1 passed, 1 failed, 0 skipped",
			err:  "1 failed",
		},
		{
			name: "a test that was running when its package ended has failed",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"said before the exit\n"}
{"Action":"output","Package":"p","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p"}`,
			want: []string{"said before the exit", "panic: test timed out", "failed: p TestA"},
			last: "0 passed, 1 failed, 0 skipped",
			err:  "1 failed",
		},
		{
			name: "packages that do not compile fail, and say why once",
			events: `
{"ImportPath":"p","Action":"build-output","Output":"p.go:3: undefined: x\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
{"Action":"output","Package":"q","Output":"FAIL\tq [build failed]\n"}
{"Action":"fail","Package":"q","FailedBuild":"p"}`,
			want: []string{"p.go:3: undefined: x", "FAIL\tp [build failed]", "FAIL\tq [build failed]", "failed: p", "failed: q"},
			last: "0 passed, 2 failed, 0 skipped",
			err:  "2 failed",
		},
		{
			name:   "a run that was cut off has failed",
			events: `{"Action":"run","Package":"p","Test":"TestA"}`,
			want:   []string{"FAIL\tp\t[did not end]", "failed: p TestA"},
			last:   "0 passed, 1 failed, 0 skipped",
			err:    "1 failed",
		},
		{
			name:   "no test at all is no success",
			events: `go: warning: "./..." matched no packages`,
			want:   []string{`go: warning: "./..." matched no packages`},
			last:   "0 passed, 0 failed, 0 skipped",
			err:    "no test passed",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := run(strings.NewReader(strings.TrimSpace(tt.events)+"\n"), &out, "go test", tt.require)
			if got := errorText(err); got != tt.err {
				t.Errorf("error: got %q, want %q", got, tt.err)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if got := lines[len(lines)-1]; got != tt.last {
				t.Errorf("last line: got %q, want %q", got, tt.last)
			}
			for _, want := range tt.want {
				for len(lines) > 0 && lines[0] != want {
					lines = lines[1:]
				}
				if len(lines) == 0 {
					t.Fatalf("line %q is missing or out of order in\n%s", want, &out)
				}
				lines = lines[1:]
			}
			if strings.Contains(out.String(), "not shown") {
				t.Errorf("output of a passed test in\n%s", &out)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
