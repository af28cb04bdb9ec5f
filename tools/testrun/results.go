package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json, see go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

// result is how long a package or a test took.
type result struct {
	name    string
	seconds float64
}

// skipped is a test that did not run, and why.
type skipped struct{ name, reason string }

// results collects events, and prints urgent lines at once.
type results struct {
	out      io.Writer
	output   map[string]map[string][]string // by package and test, of tests that have not passed
	racing   map[string]bool                // packages in the middle of a report of the race detector
	failed   []string                       // tests, and packages without a test that failed
	packages []result
	tests    []result
	skips    []skipped
}

func newResults(out io.Writer) *results {
	return &results{out: out, output: make(map[string]map[string][]string), racing: make(map[string]bool)}
}

// read returns at the end of the events. A run without a package is an error.
func (r *results) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				fmt.Fprint(r.out, line) // go itself has something to say
			} else {
				r.take(e)
			}
		}
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF):
			return err
		case len(r.packages) == 0:
			return errors.New("no package was tested")
		default:
			return nil
		}
	}
}

func (r *results) take(e event) {
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.out, e.Output)
	case e.Test == "":
		r.takePackage(e)
	case e.Action == "output":
		r.keep(e)
	case e.Action == "pass", e.Action == "fail", e.Action == "skip":
		r.endTest(e)
	}
}

func (r *results) takePackage(e event) {
	switch e.Action {
	case "output":
		r.printClosing(e.Output)
		return
	case "pass":
		delete(r.output, e.Package)
	case "fail":
		r.printFailed(e.Package)
		if !slices.ContainsFunc(r.failed, func(name string) bool { return strings.HasPrefix(name, e.Package+".Test") }) {
			r.failed = append(r.failed, e.Package)
		}
	default:
		return
	}
	r.packages = append(r.packages, result{e.Package, e.Elapsed})
}

func (r *results) endTest(e event) {
	name := e.Package + "." + e.Test
	if e.Action == "skip" {
		r.skips = append(r.skips, skipped{name, reason(r.output[e.Package][e.Test])})
	} else if !strings.Contains(e.Test, "/") {
		r.tests = append(r.tests, result{name, e.Elapsed})
	}
	if e.Action != "fail" {
		delete(r.output[e.Package], e.Test)
	} else if !slices.ContainsFunc(r.failed, func(part string) bool { return strings.HasPrefix(part, name+"/") }) { // its parts end first
		r.failed = append(r.failed, name)
	}
}

// The first and the last line of the race detector's report. Before the first stands another of the last.
const (
	raceBegin = "WARNING: DATA RACE\n"
	raceEnd   = "==================\n"
)

// keep keeps the output of a test until its package ends. The race detector's report is printed at once, because it is in the
// output of whichever test had the last line before it, and this test may pass.
func (r *results) keep(e event) {
	if e.Output == raceBegin {
		fmt.Fprintf(r.out, "%s: ", e.Package)
		r.racing[e.Package] = true
	}
	if r.racing[e.Package] {
		fmt.Fprint(r.out, e.Output)
		r.racing[e.Package] = e.Output != raceEnd
		return
	}
	if r.output[e.Package] == nil {
		r.output[e.Package] = make(map[string][]string)
	}
	r.output[e.Package][e.Test] = append(r.output[e.Package][e.Test], e.Output)
}

// printClosing prints the lines of a package's test binary. It omits the pass line and the share of statements, because
// go test's own line has both with the names of all covered packages.
func (r *results) printClosing(line string) {
	if line == "PASS\n" || strings.HasPrefix(line, "coverage:") {
		return
	}
	line, _, measured := strings.Cut(strings.TrimSuffix(line, "\n"), "\tcoverage:")
	if measured && strings.HasPrefix(line, "\t") { // a package without tests
		return
	}
	fmt.Fprintln(r.out, line)
}

// printFailed prints the output of a package's failed tests, and of tests that were running at the package's end.
func (r *results) printFailed(name string) {
	tests := r.output[name]
	for _, test := range slices.Sorted(maps.Keys(tests)) {
		for _, line := range tests[test] {
			if !isMarker(line, "=== ") {
				fmt.Fprint(r.out, line)
			}
		}
	}
	delete(r.output, name)
}

func isMarker(line, marker string) bool {
	return strings.HasPrefix(strings.TrimLeft(line, " "), marker)
}

// reason is the text of t.Skip, behind its place in the source.
func reason(output []string) string {
	var text []string
	for _, line := range output {
		if !isMarker(line, "=== ") && !isMarker(line, "--- ") {
			text = append(text, strings.TrimSpace(line))
		}
	}
	return strings.Join(text, " ")
}

// nameFailed prints the names of the tests that failed, and appends them to a file if it has a name.
func (r *results) nameFailed(file string) error {
	var names strings.Builder
	for _, name := range r.failed {
		fmt.Fprintf(&names, "failed: %s\n", name)
	}
	fmt.Fprint(r.out, names.String())
	if file == "" || names.Len() == 0 {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(names.String())
	return errors.Join(err, f.Close())
}

func (r *results) printSlowest() {
	fmt.Fprintln(r.out, "\nlongest packages:")
	r.printTop(r.packages, slowestPackages)
	fmt.Fprintln(r.out, "longest tests:")
	r.printTop(r.tests, slowestTests)
}

func (r *results) printTop(all []result, most int) {
	slices.SortStableFunc(all, func(a, b result) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, one := range all[:min(most, len(all))] {
		fmt.Fprintf(r.out, "%8.1fs  %s\n", one.seconds, one.name)
	}
}

// checkSkips names the tests that were skipped for a reason that is not allowed; that is an error where every test must run.
func (r *results) checkSkips(allowed *regexp.Regexp, requireAll bool) error {
	missing := slices.DeleteFunc(slices.Clone(r.skips), func(s skipped) bool { return allowed.MatchString(s.reason) })
	for _, s := range missing {
		fmt.Fprintf(r.out, "skipped: %s: %s\n", s.name, s.reason)
	}
	if len(missing) > 0 && requireAll {
		return fmt.Errorf("%d tests were skipped that must run: see above", len(missing))
	}
	return nil
}
