package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// backends are the path elements of a subtest's name that say what it ran on, as in TestCreate/postgres/same_url.
var backends = []string{"sqlite", "postgres", "miniredis", "redis"}

// event is a line of go test -json; see go doc test2json, and go help buildjson for the actions build-output and
// build-fail.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	FailedBuild string
}

// test is a test or subtest that has begun.
type test struct {
	output   strings.Builder
	ended    bool
	parent   bool // it has subtests, which are counted in its place
	failures int  // among its subtests
}

// pkg is a package whose tests run.
type pkg struct {
	output strings.Builder // what no test printed
	tests  map[string]*test
	failed int
}

// summary adds up the events of one go test run.
type summary struct {
	out      io.Writer
	packages map[string]*pkg
	builds   map[string]*strings.Builder

	passed, failed, skipped int
	failures, skips         []string
	ran                     map[string]int // tests per backend
}

func newSummary(out io.Writer) *summary {
	return &summary{
		out:      out,
		packages: map[string]*pkg{},
		builds:   map[string]*strings.Builder{},
		ran:      map[string]int{},
	}
}

// read takes events until the input ends. Lines that are no event are printed as they are.
func (s *summary) read(in io.Reader) error {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			s.line(line)
		}
		if errors.Is(err, io.EOF) {
			s.endUnfinished()
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading events: %w", err)
		}
	}
}

func (s *summary) line(line string) {
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil || e.Action == "" {
		fmt.Fprint(s.out, line)
		return
	}
	switch {
	case e.Action == "build-output":
		s.build(e.ImportPath).WriteString(e.Output)
	case e.Package == "":
	case e.Test == "":
		s.packageEvent(e)
	default:
		s.testEvent(s.pkg(e.Package), e)
	}
}

func (s *summary) build(importPath string) *strings.Builder {
	if s.builds[importPath] == nil {
		s.builds[importPath] = &strings.Builder{}
	}
	return s.builds[importPath]
}

func (s *summary) pkg(name string) *pkg {
	if s.packages[name] == nil {
		s.packages[name] = &pkg{tests: map[string]*test{}}
	}
	return s.packages[name]
}

func (s *summary) packageEvent(e event) {
	p := s.pkg(e.Package)
	switch e.Action {
	case "output":
		p.output.WriteString(e.Output)
	case "pass", "skip":
		fmt.Fprint(s.out, resultLine(p.output.String()))
		delete(s.packages, e.Package)
	case "fail":
		s.failPackage(e.Package, e.FailedBuild)
	}
}

// resultLine picks the line with the package's name and time from what go test printed about it.
func resultLine(output string) string {
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") {
			return line
		}
	}
	return ""
}

// failPackage counts a package that no test of its own explains, such as one that does not compile, as one failure.
func (s *summary) failPackage(name, failedBuild string) {
	p := s.pkg(name)
	s.failRunning(name, p)
	if b := s.builds[failedBuild]; b != nil {
		fmt.Fprint(s.out, b)
		delete(s.builds, failedBuild) // packages that share a broken dependency report it once
	}
	fmt.Fprint(s.out, p.output.String())
	if p.failed == 0 {
		s.fail(name)
	}
	delete(s.packages, name)
}

// failRunning fails the tests that were running when their package ended: they panicked, timed out or exited.
func (s *summary) failRunning(name string, p *pkg) {
	names := slices.Sorted(maps.Keys(p.tests))
	slices.Reverse(names) // subtests before the test they belong to
	for _, t := range names {
		if !p.tests[t].ended {
			s.testEvent(p, event{Action: "fail", Package: name, Test: t})
		}
	}
}

// endUnfinished fails the packages whose end never came, as after an interrupt.
func (s *summary) endUnfinished() {
	for _, name := range slices.Sorted(maps.Keys(s.packages)) {
		s.failPackage(name, "")
		fmt.Fprintf(s.out, "FAIL\t%s\t[did not end]\n", name)
	}
}

func (s *summary) testEvent(p *pkg, e event) {
	t := p.tests[e.Test]
	if t == nil {
		t = &test{}
		p.tests[e.Test] = t
		if up := p.parentOf(e.Test); up != nil {
			up.parent = true
		}
	}
	switch e.Action {
	case "output":
		if !isProgress(e.Output) {
			t.output.WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		s.endTest(p, t, e)
	}
}

// isProgress is true of the lines by which a verbose run says which test is at work.
func isProgress(line string) bool {
	return strings.HasPrefix(line, "=== RUN ") || strings.HasPrefix(line, "=== PAUSE ") ||
		strings.HasPrefix(line, "=== CONT ") || strings.HasPrefix(line, "=== NAME ")
}

func (p *pkg) parentOf(name string) *test {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return p.tests[name[:i]]
	}
	return nil
}

// endTest counts leaves, and a parent only where its subtests do not account for its result.
func (s *summary) endTest(p *pkg, t *test, e event) {
	t.ended = true
	name := e.Package + " " + e.Test
	switch e.Action {
	case "fail":
		fmt.Fprint(s.out, t.output.String())
		if up := p.parentOf(e.Test); up != nil {
			up.failures++
		}
		if t.failures == 0 {
			p.failed++
			s.fail(name)
		}
	case "skip":
		s.skipped++
		s.skips = append(s.skips, name+reason(t.output.String()))
	case "pass":
		if !t.parent {
			s.passed++
		}
	}
	if !t.parent && e.Action != "skip" {
		s.countBackends(e.Test)
	}
	t.output.Reset()
}

func (s *summary) fail(name string) {
	s.failed++
	s.failures = append(s.failures, name)
}

// countBackends drops what the testing package appends to the second subtest of one name: postgres#01.
func (s *summary) countBackends(name string) {
	elements := strings.Split(name, "/")
	for i := range elements {
		elements[i], _, _ = strings.Cut(elements[i], "#")
	}
	for _, b := range backends {
		if slices.Contains(elements, b) {
			s.ran[b]++
		}
	}
}

// reason is what the test said when it was skipped, on one line.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return ""
	}
	return ": " + strings.Join(said, " ")
}

// missing returns those of the required backends on which no test ran.
func (s *summary) missing(required []string) []string {
	return slices.DeleteFunc(slices.Clone(required), func(b string) bool { return s.ran[b] > 0 })
}

func (s *summary) report(name string, took time.Duration, missing []string) {
	result := "ok"
	if s.failed > 0 || len(missing) > 0 {
		result = "FAILED"
	}
	fmt.Fprintf(s.out, "%-16s %-6s %4.0f s\n", name, result, took.Seconds())
	for _, name := range s.failures {
		fmt.Fprintln(s.out, "failed:", name)
	}
	for _, skip := range s.skips {
		fmt.Fprintln(s.out, "skipped:", skip)
	}
	var counts []string
	for _, b := range backends {
		counts = append(counts, fmt.Sprintf("%d on %s", s.ran[b], b))
	}
	fmt.Fprintln(s.out, "ran:", strings.Join(counts, ", "))
	if len(missing) > 0 {
		fmt.Fprintln(s.out, "failed: no test ran on", strings.Join(missing, ", "))
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed+len(missing), s.skipped)
}
