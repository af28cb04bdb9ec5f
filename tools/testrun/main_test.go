package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/tools/internal/toolstest"
)

// module writes a module with these test files, and returns its folder.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	files["go.mod"] = "module example.org/m\n\ngo 1.26.0\n"
	toolstest.Write(t, folder, files)
	return folder
}

const header = "package m\n\nimport \"testing\"\n\n"

const (
	passing  = header + `func TestOne(t *testing.T) { t.Log("not printed"); t.Run("part", func(*testing.T) {}) }`
	skipping = header + `func TestTwo(t *testing.T) { t.Run("part", func(t *testing.T) { t.Skip("no redis here") }) }`
	failing  = header + `func TestThree(t *testing.T) { t.Run("part", func(t *testing.T) { t.Error("it is broken") }) }`
	crashing = header + `func TestFour(t *testing.T) { t.Log("so far"); go panic("it crashed"); select {} }`
	broken   = header + `func TestFive(t *testing.T) { return 5 }`
)

func TestRun(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		files      map[string]string
		maySkip    string
		requireAll bool
		printed    []string
		refused    string
	}{
		"all pass":           {map[string]string{"a_test.go": passing, "b/b_test.go": passing}, "^$", true, []string{"ok  \texample.org/m\t", "ok  \texample.org/m/b\t", "longest packages:\n", "longest tests:\n", "s  example.org/m.TestOne\n"}, ""},
		"a skip is named":    {map[string]string{"a_test.go": skipping}, "^$", false, []string{"skipped: example.org/m.TestTwo/part: a_test.go:5: no redis here\n"}, ""},
		"a skip is refused":  {map[string]string{"a_test.go": skipping}, "no postgres", true, []string{"skipped: example.org/m.TestTwo/part"}, "1 tests were skipped that must run"},
		"a skip is allowed":  {map[string]string{"a_test.go": skipping}, "no redis", true, []string{"ok  \texample.org/m\t"}, ""},
		"a test fails":       {map[string]string{"a_test.go": failing, "b/b_test.go": passing}, "^$", true, []string{"it is broken", "--- FAIL: TestThree", "FAIL\texample.org/m\t", "ok  \texample.org/m/b\t"}, "exit status 1"},
		"a test crashes":     {map[string]string{"a_test.go": crashing}, "^$", true, []string{"so far", "panic: it crashed", "FAIL\texample.org/m\t"}, "exit status 1"},
		"a test is no Go":    {map[string]string{"a_test.go": broken}, "^$", true, []string{"too many return values", "FAIL\texample.org/m [build failed]"}, "exit status 1"},
		"nothing is tested":  {map[string]string{}, "^$", true, nil, "no package was tested"},
		"a pattern is wrong": {map[string]string{}, "(", true, nil, "missing closing )"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var printed strings.Builder
			err := run(t.Context(), &printed, []string{"-dir", module(t, row.files), "-may-skip", row.maySkip, "-count", "1", "./..."}, row.requireAll)
			for _, part := range row.printed {
				if !strings.Contains(printed.String(), part) {
					t.Errorf("it printed\n%s\nwant %q", printed.String(), part)
				}
			}
			if strings.Contains(printed.String(), "not printed") || strings.Contains(printed.String(), "=== RUN") {
				t.Errorf("it printed\n%s\nwant nothing of tests that pass", printed.String())
			}
			if row.refused == "" && err != nil || row.refused != "" && (err == nil || !strings.Contains(err.Error(), row.refused)) {
				t.Errorf("it ended with %v, want %q", err, row.refused)
			}
		})
	}
}

// A package's coverage is not repeated with the list of all packages.
func TestClosingLineIsShort(t *testing.T) {
	t.Parallel()
	var printed strings.Builder
	r := newResults(&printed)
	err := r.read(strings.NewReader(`{"Action":"output","Package":"m","Output":"coverage: 50.0% of statements in ./...\n"}
{"Action":"output","Package":"m","Output":"ok  \tm\t1.2s\tcoverage: 50.0% of statements in ./...\n"}
{"Action":"pass","Package":"m","Elapsed":1.2}
{"Action":"output","Package":"n","Output":"\tn\t\tcoverage: 0.0% of statements\n"}
not an event`))
	if want := "ok  \tm\t1.2s\nnot an event"; err != nil || printed.String() != want {
		t.Errorf("it printed %q and ended with %v, want %q", printed.String(), err, want)
	}
}

// Case 80: a report of the race detector is printed at once, and not when its package ends. It is in the output of any test of
// the package, also of one that passes.
func TestRaceReportIsPrintedAtOnce(t *testing.T) {
	t.Parallel()
	var printed strings.Builder
	r := newResults(&printed)
	output := func(text string) { r.take(event{Action: "output", Package: "m", Test: "TestBystander", Output: text}) }
	output("before\n")
	output(raceEnd)
	output(raceBegin)
	output("Write at 0x00c000012345\n")
	output(raceEnd)
	output("after\n")
	if want := "m: WARNING: DATA RACE\nWrite at 0x00c000012345\n==================\n"; printed.String() != want {
		t.Errorf("it printed %q, want %q", printed.String(), want)
	}
}

// Case 80: the last lines have the names of the tests that failed, also in a file, for a caller that prints more.
func TestFailedTestsAreNamedLast(t *testing.T) {
	t.Parallel()
	var printed strings.Builder
	file := filepath.Join(t.TempDir(), "failed")
	files := map[string]string{"a_test.go": failing, "b/b_test.go": passing, "c/c_test.go": broken, "d/d_test.go": crashing}
	for range 2 { // the file is appended to
		if err := run(t.Context(), &printed, []string{"-failed", file, "-dir", module(t, files), "-count", "1", "./..."}, true); err == nil {
			t.Fatal("it passed")
		}
	}
	names, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(names), "\n"), "\n")
	slices.Sort(got)
	want := []string{"failed: example.org/m.TestThree/part", "failed: example.org/m/c", "failed: example.org/m/d"}
	if got = slices.Compact(got); !slices.Equal(got, want) || !strings.HasSuffix(string(names), printed.String()[strings.LastIndex(printed.String(), "\nfailed: ")+1:]) {
		t.Errorf("the file has %q, want %q, and it printed\n%s", got, want, printed.String())
	}
	lines := strings.Split(strings.TrimSuffix(printed.String(), "\n"), "\n")
	for _, line := range lines[len(lines)-len(want):] {
		if !strings.HasPrefix(line, "failed: ") {
			t.Errorf("%q stands behind the names", line)
		}
	}
}

// Each row of the plan is of a package that exists, and gives a reason. A package that no row names is tested in both ways. Only
// the model is in neither run.
func TestPlan(t *testing.T) {
	t.Parallel()
	all, err := workspace(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	names := func(pattern string) bool {
		return slices.ContainsFunc(all, func(path string) bool {
			folder, whole := strings.CutSuffix(library+"/"+pattern, "/...")
			return path == folder || whole && strings.HasPrefix(path, folder+"/")
		})
	}
	for _, r := range rows {
		if !names(r.packages) || r.reason == "" || r.way == both {
			t.Errorf("the row %+v is of no package, has no reason, or is no exception", r)
		}
	}
	for _, name := range slices.Concat(longest.raced, longest.unraced) {
		if !names(name) {
			t.Errorf("%s is in longest, and does not exist", name)
		}
	}
	raced, err := planned("raced", all)
	if err != nil {
		t.Fatal(err)
	}
	unraced, err := planned("unraced", all)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		w := wayOf(path)
		isModel := path == library+"/core/internal/explore/model"
		if slices.Contains(raced, path) != w.raced || slices.Contains(unraced, path) != w.unraced || (w == alone) != isModel {
			t.Errorf("%s: the way is %+v", path, w)
		}
	}
	if wayOf(library) != both || wayOf(library+"/core") != both || wayOf(library+"/core/pgstore") != racedOnly || wayOf(library+"/policy") != unracedOnly {
		t.Error("a package has a wrong way")
	}
	if raced[0] != library+"/"+longest.raced[0] || unraced[0] != library+"/"+longest.unraced[0] {
		t.Errorf("the first are %s and %s", raced[0], unraced[0])
	}
	if _, err := planned("both", all); err == nil {
		t.Error("a plan of no name is accepted")
	}
}
