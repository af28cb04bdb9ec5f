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

// The Makefile says which modules there are, and which of them are published. Each other list says the same.
func TestListsOfModules(t *testing.T) {
	t.Parallel()
	all := foldersIn(t, "MODULES")
	public := foldersIn(t, "PUBLISHED")
	others := slices.DeleteFunc(slices.Clone(all), func(folder string) bool { return slices.Contains(public, folder) })
	inWorkspace := slices.DeleteFunc(slices.Clone(all), func(folder string) bool { return folder == "tools" })
	toRequire := slices.DeleteFunc(slices.Clone(public), func(folder string) bool {
		return folder == "." || strings.Contains(folder, "internal/") || isCommand(t, folder)
	})
	for name, row := range map[string]struct {
		file, within, folder string // patterns of a part of the file, and of a folder there
		want                 []string
	}{
		"of go.work":                        {"go.work", `(?s)use \((.*?)\)`, `\t\./?(\S*)`, inWorkspace},
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
			t.Errorf("the list of modules %s in %s is\n%s\nwant that of the Makefile\n%s", name, row.file, strings.Join(got, " "), strings.Join(row.want, " "))
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

// foldersIn returns the sorted words of a variable of the Makefile.
func foldersIn(t *testing.T, variable string) []string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	testkit.Must(t, err)
	words := regexp.MustCompile(`(?m)^` + variable + ` := ((?:.*\\\n)*.*)$`).FindSubmatch(makefile)
	if words == nil {
		t.Fatalf("the Makefile has no %s", variable)
	}
	return slices.Sorted(strings.FieldsSeq(strings.ReplaceAll(string(words[1]), "\\\n", " ")))
}

func isCommand(t *testing.T, folder string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(root, folder, "main.go"))
	return err == nil
}
