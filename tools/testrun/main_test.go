package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module with these test files, and returns its folder.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	files["go.mod"] = "module example.org/m\n\ngo 1.26.0\n"
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
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

// The race detector writes into the output of any test of the package, also of one that passes.
func TestRaceReportIsPrinted(t *testing.T) {
	t.Parallel()
	events := func(end string) string {
		return `{"Action":"output","Package":"m","Test":"TestBystander","Output":"WARNING: DATA RACE\n"}
{"Action":"pass","Package":"m","Test":"TestBystander"}
{"Action":"output","Package":"m","Test":"TestRacy","Output":"--- FAIL: TestRacy (0.01s)\n"}
{"Action":"fail","Package":"m","Test":"TestRacy"}
{"Action":"` + end + `","Package":"m","Elapsed":1.2}
`
	}
	for end, want := range map[string]string{"fail": "WARNING: DATA RACE\n--- FAIL: TestRacy (0.01s)\n", "pass": ""} {
		var printed strings.Builder
		if err := newResults(&printed).read(strings.NewReader(events(end))); err != nil || printed.String() != want {
			t.Errorf("%s: it printed %q and ended with %v, want %q", end, printed.String(), err, want)
		}
	}
}
