package examples_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/oncekey/oncekey/internal/testkit"
)

// repository is the public address of the repository.
const repository = "https://github.com/oncekey/oncekey/"

// page is a file of the documentation.
type page struct {
	path string // as from this folder
	text string // after a line break, so that every line has a line break before it
}

func pages(t *testing.T) []page {
	t.Helper()
	paths, err := filepath.Glob("../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("docs has %d pages, %v", len(paths), err)
	}
	var all []page
	for _, path := range append(paths, "../README.md", "../SECURITY.md", "../CONTRIBUTING.md") {
		all = append(all, readPage(t, path))
	}
	return all
}

func readPage(t *testing.T, path string) page {
	t.Helper()
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	return page{path, "\n" + string(text)}
}

var fence = regexp.MustCompile("\n```(\\w*)\n((?:.*\n)*?)```\n")

// blocks returns the code blocks of a language.
func (p page) blocks(language string) (code []string) {
	for _, match := range fence.FindAllStringSubmatch(p.text, -1) {
		if match[1] == language {
			code = append(code, match[2])
		}
	}
	return code
}

// prose is the page without its code blocks.
func (p page) prose() string { return fence.ReplaceAllString(p.text, "\n") }

// Every Go snippet is part of a Go file of the examples, or of a package's Examples, line by line.
func TestSnippetsAreCompiled(t *testing.T) {
	t.Parallel()
	var compiled strings.Builder
	read := func(path string) error {
		source, err := os.ReadFile(path)
		compiled.WriteString(unindented(string(source)))
		return err
	}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		return read(path)
	})
	testkit.Must(t, err)
	for _, pattern := range []string{"../core/example*_test.go", "../core/*/example*_test.go", "../adapters/*/example*_test.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("no package has Examples like %s, %v", pattern, err)
		}
		for _, path := range paths {
			testkit.Must(t, read(path))
		}
	}
	count := 0
	for _, p := range pages(t) {
		for _, snippet := range p.blocks("go") {
			if count++; !strings.Contains(compiled.String(), unindented(snippet)) {
				t.Errorf("%s: no Go file of the examples, and no Example, has this snippet:\n%s", p.path, snippet)
			}
		}
	}
	if count < 12 {
		t.Errorf("the documentation has %d snippets, want at least 12", count)
	}
}

// unindented is the code without the white space around its lines, and without comment
// lines.
func unindented(code string) string {
	var plain strings.Builder
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "//") {
			plain.WriteString(line + "\n")
		}
	}
	return plain.String()
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:href|src|srcset)="([^"]+)"`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	anchorID = regexp.MustCompile(`<a id="([^"]+)">`)
)

// Every link to a file or a heading of this repository has a target.
func TestLinks(t *testing.T) {
	t.Parallel()
	count := 0
	for _, p := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(p.prose(), -1) {
			target := match[1] + match[2]
			target, ours := strings.CutPrefix(target, repository+"blob/main/")
			if strings.Contains(target, "://") {
				continue // another site, or a badge
			}
			folder := filepath.Dir(p.path)
			if ours {
				folder = ".."
			}
			count++
			testkit.Equal(t, follow(t, p, folder, target), "", "%s: %s", p.path, match[0])
		}
	}
	if count < 40 {
		t.Errorf("the documentation has %d links, want at least 40", count)
	}
}

// follow returns the reason why a link is broken, or "".
func follow(t *testing.T, from page, folder, target string) string {
	t.Helper()
	path, anchor, hasAnchor := strings.Cut(target, "#")
	to := from
	if path != "" {
		path = filepath.Join(folder, path)
		if _, err := os.Stat(path); err != nil {
			return err.Error()
		}
		if hasAnchor {
			to = readPage(t, path)
		}
	}
	if hasAnchor && !to.anchors()[anchor] {
		return "the page has no such heading"
	}
	return ""
}

// anchors are GitHub's anchors of the headings, and explicit anchors.
func (p page) anchors() map[string]bool {
	found := map[string]bool{}
	prose := p.prose()
	for _, match := range heading.FindAllStringSubmatch(prose, -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, match[1])
		unique := name
		for n := 1; found[unique]; n++ {
			unique = name + "-" + strconv.Itoa(n)
		}
		found[unique] = true
	}
	for _, match := range anchorID.FindAllStringSubmatch(prose, -1) {
		found[match[1]] = true
	}
	return found
}
