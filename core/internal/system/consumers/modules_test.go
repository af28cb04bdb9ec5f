package consumers

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// The documentation names the modules of the workspace.
func TestListsOfModules(t *testing.T) {
	t.Parallel()
	public, others := modules(t)
	toRequire := slices.DeleteFunc(slices.Clone(public), func(folder string) bool {
		return folder == "." || strings.Contains(folder, "internal/") || isCommand(t, folder)
	})
	for name, row := range map[string]struct {
		file, within, folder string // patterns of a part of the file, and of a folder there
		want                 []string
	}{
		"to go get":                         {"README.md", `(?s)## Install\n.*?\n## `, "`((?:core|adapters)/[^`]*)`\\*", toRequire},
		"of tags":                           {"docs/deploy.md", `(?s)The root module, .*?Use the same`, "(root) module|`([^`]*)`", public},
		"published, of the architecture":    {"docs/architecture.md", `(?s)\| module \| published.*?\n\n`, "\\| (.*) \\| yes \\|", public},
		"of the others of the architecture": {"docs/architecture.md", `(?s)\| module \| published.*?\n\n`, "\\| (.*) \\| no \\|", others},
	} {
		text, err := os.ReadFile(filepath.Join(root, row.file))
		testkit.Must(t, err)
		var got []string
		for _, found := range regexp.MustCompile(row.folder).FindAllStringSubmatch(regexp.MustCompile(row.within).FindString(string(text)), -1) {
			for folder := range strings.SplitSeq(strings.Join(found[1:], ""), ", ") {
				got = append(got, named(folder))
			}
		}
		// grpc and connect require rpc, so a list may name a module twice.
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, row.want) {
			t.Errorf("the list of modules %s in %s is\n%s\nwant that of go.work\n%s", name, row.file, strings.Join(got, " "), strings.Join(row.want, " "))
		}
	}
}

// named returns the folder that a list names.
func named(word string) string {
	switch word = strings.Trim(word, "`"); word {
	case "", "root", "the root":
		return "."
	default:
		return word
	}
}

// modules returns the sorted folders of the modules of go.work and of the tools: those that users get, by the Makefile's rule, and
// the others.
func modules(t *testing.T) (public, others []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "go.work"))
	testkit.Must(t, err)
	others = []string{"tools"}
	for _, line := range regexp.MustCompile(`(?m)^\t\./?(\S*)$`).FindAllStringSubmatch(string(text), -1) {
		folder := named(line[1])
		if strings.HasPrefix(folder, "core/internal/") || strings.HasPrefix(folder, "examples") {
			others = append(others, folder)
		} else {
			public = append(public, folder)
		}
	}
	slices.Sort(public)
	slices.Sort(others)
	return public, others
}

func isCommand(t *testing.T, folder string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(root, folder, "main.go"))
	return err == nil
}
