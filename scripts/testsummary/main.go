// Command testsummary reads the output of go test -json on its standard input. It prints a line for each package as it
// ends and the complete output of what failed, then which tests were skipped and how many ran on each backend. The last
// line is "N passed, N failed, N skipped". It exits with 1 when anything failed, or when no test ran on a backend named
// in -require.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	require := flag.String("require", "", "comma-separated backends on which at least one test must have run")
	name := flag.String("name", "go test", "what to call the run")
	flag.Parse()
	// A signal to the whole group is for go test, which still has to say what it ended with.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	if err := run(os.Stdin, os.Stdout, *name, *require); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(1)
	}
}

// run returns an error when the tests as a whole cannot be called passed.
func run(in io.Reader, out io.Writer, name, require string) error {
	began := time.Now()
	s := newSummary(out)
	if err := s.read(in); err != nil {
		return err
	}
	missing := s.missing(strings.FieldsFunc(require, func(r rune) bool { return r == ',' }))
	s.report(name, time.Since(began), missing)
	switch {
	case s.failed > 0:
		return fmt.Errorf("%d failed", s.failed)
	case len(missing) > 0:
		return fmt.Errorf("no test ran on %s", strings.Join(missing, ", "))
	case s.passed == 0:
		return fmt.Errorf("no test passed")
	}
	return nil
}
