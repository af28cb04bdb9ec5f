package consumers

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// page is the auditor's. It has the budgets and the tour.
const page = root + "/docs/architecture.md"

// size counts the lines of a package's files, and those of them that are neither blank nor comments.
type size struct{ files, lines, code int }

func (s *size) add(other size) {
	s.files += other.files
	s.lines += other.lines
	s.code += other.code
}

var comment = regexp.MustCompile(`^\s*(//.*)?$`)

func sizeOf(t *testing.T, path string) size {
	t.Helper()
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	counted := size{files: 1}
	for line := range bytes.Lines(text) {
		counted.lines++
		if !comment.Match(bytes.TrimSuffix(line, []byte("\n"))) {
			counted.code++
		}
	}
	return counted
}

// ours are the packages of this repository that the program compiles.
func (u user) ours() map[string]size {
	u.t.Helper()
	packages := map[string]size{}
	for file := range strings.Lines(u.run("list", "-deps", "-f", `{{$p := .}}{{range .GoFiles}}{{$p.ImportPath}}={{$p.Dir}}/{{.}}{{"\n"}}{{end}}`, ".")) {
		path, name, _ := strings.Cut(strings.TrimSpace(file), "=")
		if path, isOurs := strings.CutPrefix(path, module+"/"); isOurs {
			counted := packages[path]
			counted.add(sizeOf(u.t, name))
			packages[path] = counted
		}
	}
	return packages
}

// Our packages in a user's program, their lines and their lines of code stay within the budgets of docs/architecture.md. With
// -v the test prints each package.
func TestBudget(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go tool: ", err)
	}
	text, err := os.ReadFile(page)
	testkit.Must(t, err)
	parts := published(t)
	for name, program := range map[string]string{"chi and memory": chi, "chi and Redis": chiAndRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := regexp.MustCompile(`(?m)^\| ` + name + ` \| ([0-9]+) \| ([0-9,]+) \| ([0-9,]+) \|$`).FindSubmatch(text)
			if row == nil {
				t.Fatalf("%s has no budget of a program with %s", page, name)
			}
			user := newUser(t, parts, program, "")
			user.run("mod", "tidy")
			var whole size
			packages := user.ours()
			for _, path := range slices.Sorted(maps.Keys(packages)) {
				whole.add(packages[path])
				t.Logf("%-32s %+v", path, packages[path])
			}
			t.Logf("%d packages, %+v", len(packages), whole)
			budget := [3]int{number(t, row[1]), number(t, row[2]), number(t, row[3])}
			if len(packages) > budget[0] || whole.lines > budget[1] || whole.code > budget[2] {
				t.Errorf("the program compiles %d packages of ours with %d lines, %d of them code; the budgets are %d",
					len(packages), whole.lines, whole.code, budget)
			}
		})
	}
}

func number(t *testing.T, text []byte) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(string(text), ",", ""))
	testkit.Must(t, err)
	return n
}

// The tour of docs/architecture.md can be read in an afternoon.
func TestTour(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	testkit.Must(t, err)
	_, tour, _ := strings.Cut(string(text), "\n## The tour\n")
	tour, _, _ = strings.Cut(tour, "\n## ")
	var whole size
	var rows []string
	for _, link := range regexp.MustCompile(`\]\(\.\./([a-z/]+\.go)\)`).FindAllStringSubmatch(tour, -1) {
		counted := sizeOf(t, filepath.Join(root, link[1]))
		whole.add(counted)
		rows = append(rows, fmt.Sprint(link[1], ": ", counted.lines))
	}
	if whole.files < 10 || whole.lines > 2500 {
		t.Errorf("the tour has %d files with %d lines, want at most 2500:\n%s", whole.files, whole.lines, strings.Join(rows, "\n"))
	}
}
