package examples_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Every code has its heading in problems.md, the target of the problem's type.
func TestEveryCodeHasItsHeading(t *testing.T) {
	t.Parallel()
	const path = "docs/problems.md"
	anchors := readPage(t, "../"+path).anchors()
	for _, code := range problem.Codes() {
		if !anchors[code] {
			t.Errorf("%s has no heading %q", path, code)
		}
	}
	engine, err := core.New(memstore.New(), core.SharedScope)
	testkit.Must(t, err)
	w := httptest.NewRecorder()
	engine.Handler(http.HandlerFunc(pay)).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", nil))
	var p problem.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Type != repository+"blob/main/"+path+"#"+problem.KeyMissing {
		t.Errorf("a request without a key got the problem %+v, %v", p, err)
	}
}

// problems.md has a row for each code that a client can get: with its status, and with
// Retry-After exactly for temporary problems.
func TestClientsKnowEveryCode(t *testing.T) {
	t.Parallel()
	page := readPage(t, "../docs/problems.md")
	_, section, _ := strings.Cut(page.text, "\n## Problems by code\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, code := range problem.Codes() {
		if code == problem.WrongSetup { // a mistake of the service
			continue
		}
		p, row := problem.New(code, ""), ""
		for line := range strings.Lines(section) {
			if cells := strings.Split(line, "|"); len(cells) > 3 && strings.Contains(cells[1], "`"+code+"`") {
				row = line
			}
		}
		cells := strings.Split(row, "|")
		if len(cells) != 7 || strings.TrimSpace(cells[2]) != strconv.Itoa(p.Status) || strings.Contains(cells[3], "`Retry-After`") != (p.RetryAfter > 0) {
			t.Errorf("%s, %d with Retry-After %v, has the row %q", code, p.Status, p.RetryAfter, row)
		}
	}
}

// docs/guarantees.md has the names of the tests, and CONTRIBUTING.md speaks of tests. In
// other prose a name makes its sentence longer and proves no more.
func TestNamesOfTestsStandInOnePlace(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile("`(\\w+: )?Test[A-Z]\\w+`")
	for _, p := range pages(t) {
		if strings.HasSuffix(p.path, "/guarantees.md") || strings.HasSuffix(p.path, "/CONTRIBUTING.md") {
			continue
		}
		if found := name.FindAllString(p.prose(), -1); len(found) > 0 {
			t.Errorf("%s names %s: put the names into docs/guarantees.md", p.path, found)
		}
	}
}

// Every test that a page names exists, in the package that it names.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range declared.FindAllSubmatch(source, -1) {
			tests[string(match[1])] = true
			tests[filepath.Base(filepath.Dir(path))+": "+string(match[1])] = true
		}
		return err
	})
	testkit.Must(t, err)
	named := regexp.MustCompile("`((?:\\w+: )?Test\\w+)`")
	for _, p := range pages(t) {
		for _, match := range named.FindAllStringSubmatch(p.text, -1) {
			if !tests[match[1]] {
				t.Errorf("%s names %s, which does not exist", p.path, match[1])
			}
		}
	}
}

// Every make target that a page names is in the Makefile.
func TestNamedTargetsExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../Makefile")
	testkit.Must(t, err)
	named := regexp.MustCompile("(?:`|\n)make ([a-z-]+)")
	for _, p := range pages(t) {
		for _, match := range named.FindAllStringSubmatch(p.text, -1) {
			if !strings.Contains(string(makefile), "\n"+match[1]+":") {
				t.Errorf("%s names make %s, which the Makefile does not have", p.path, match[1])
			}
		}
	}
}

// The README is short, and its code fits the page: GitHub shows 95 columns.
func TestReadmeFits(t *testing.T) {
	t.Parallel()
	readme := readPage(t, "../README.md")
	if lines := strings.Count(readme.text, "\n") - 1; lines > 150 {
		t.Errorf("the README has %d lines, want at most 150", lines)
	}
	if words := len(strings.Fields(readme.text)); words > 1100 {
		t.Errorf("the README has %d words, want at most 1100", words)
	}
	for _, match := range fence.FindAllStringSubmatch(readme.text, -1) {
		for line := range strings.Lines(match[2]) {
			wide := strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "        ")
			if utf8.RuneCountInString(wide) > 95 {
				t.Errorf("this line of the README is too long:\n%s", line)
			}
		}
	}
}
