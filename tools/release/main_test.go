package main

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/tools/internal/command"
	"github.com/oncekey/oncekey/tools/internal/toolstest"
)

// checkout is a repository with a root module, one that requires it, one that requires both, and a command.
func checkout(t *testing.T, version string) string {
	t.Helper()
	return toolstest.Repository(t, map[string]string{
		"go.mod":       "module example.org/m\n",
		"store/go.mod": "module example.org/m/store\n\nrequire example.org/m " + version + "\n",
		"cmd/go.mod":   "module example.org/m/cmd\n\nrequire example.org/m " + version + "\n\nreplace example.org/m => ../\n",
		"cmd/main.go":  "// Cmd is a command.\npackage main\n\nimport _ \"example.org/m\"\n\nfunc main() {}\n",
		"m.go":         "package m\n",
		"cmd/go.sum":   "",
		"Makefile":     "tidy: # go mod tidy needs published versions\n",
		"both/go.mod":  "module example.org/m/both\n\nrequire (\n\texample.org/m " + version + "\n\texample.org/m/store " + version + "\n)\n",
	})
}

const tags = `# Then the tags, each after those of the modules that it requires:
git tag v0.1.0
git push origin v0.1.0
git tag store/v0.1.0
git push origin store/v0.1.0
git tag both/v0.1.0
git push origin both/v0.1.0
# Last cmd, whose tag has a go.mod without replacements:
git checkout --detach
go -C cmd mod edit -dropreplace=example.org/m
GOWORK=off go -C cmd mod tidy
git commit -am 'Require v0.1.0 of the library'
git tag cmd/v0.1.0
git push origin cmd/v0.1.0
git checkout -
`

func TestRun(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ required, want string }{
		"first": {"v0.0.0", `# First, one commit with the requirements:
go -C cmd mod edit -require=example.org/m@v0.1.0
go -C store mod edit -require=example.org/m@v0.1.0
go -C both mod edit -require=example.org/m@v0.1.0
go -C both mod edit -require=example.org/m/store@v0.1.0
make tidy
git commit -am 'Require v0.1.0 within the library'
` + tags},
		"after the commit": {"v0.1.0", tags},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := run(t.Context(), &out, "v0.1.0", []string{checkout(t, row.required), "both", "cmd", "store", "."}); err != nil || out.String() != row.want {
				t.Errorf("it printed\n%s\nand ended with %v, want\n%s", out.String(), err, row.want)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	clean, dirty := checkout(t, "v0.0.0"), checkout(t, "v0.0.0")
	toolstest.Write(t, dirty, map[string]string{"new.go": ""})
	for want, row := range map[string]struct {
		version, folder string
		modules         []string
	}{
		`VERSION is "": want a semantic version`:                                     {"", clean, []string{".", "store"}},
		`VERSION is "0.1.0": want a semantic version`:                                {"0.1.0", clean, []string{".", "store"}},
		`VERSION is "v0.1": want a semantic version`:                                 {"v0.1", clean, []string{".", "store"}},
		`VERSION is "v2.0.0": the module paths have no`:                              {"v2.0.0", clean, []string{".", "store"}},
		"the checkout has changes":                                                   {"v0.1.0", dirty, []string{".", "store"}},
		"example.org/m/cmd requires example.org/m, which is not among the published": {"v0.1.0", clean, []string{"cmd", "store"}},
	} {
		var out strings.Builder
		err := run(t.Context(), &out, row.version, append([]string{row.folder}, row.modules...))
		if err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("version %q ends with %v and prints %q, want %q", row.version, err, out.String(), want)
		}
	}
}

// The rehearsal leaves the checkout as it is, and its proxy has each module, also with changes that are not committed.
func TestRehearse(t *testing.T) {
	t.Parallel()
	original, folder := checkout(t, "v0.0.0"), t.TempDir()
	toolstest.Write(t, original, map[string]string{"store/new.go": "package store\n"})
	var out strings.Builder
	if err := rehearse(t.Context(), &out, folder, "v0.1.0", []string{original, "both", "cmd", "store", "."}); err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(out.String(), ","); first != "file://"+filepath.ToSlash(filepath.Join(folder, "proxy")) {
		t.Errorf("the first proxy is %s, want that of the rehearsal", first)
	}
	for path, want := range map[string]string{
		"m":       "Makefile go.mod m.go",
		"m/store": "go.mod new.go",
		"m/both":  "go.mod",
		"m/cmd":   "go.mod go.sum main.go",
	} {
		archive, err := zip.OpenReader(filepath.Join(folder, "proxy", "example.org", path, "@v", "v0.1.0.zip"))
		if err != nil {
			t.Error(err)
			continue
		}
		var names []string
		for _, file := range archive.File {
			names = append(names, strings.TrimPrefix(file.Name, "example.org/"+path+"@v0.1.0/"))
		}
		archive.Close()
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("the archive of %s has %s, want %s", path, got, want)
		}
	}
	required, err := os.ReadFile(filepath.Join(folder, "proxy", "example.org", "m", "cmd", "@v", "v0.1.0.mod"))
	if text := string(required); err != nil || !strings.Contains(text, "require example.org/m v0.1.0") || strings.Contains(text, "replace") {
		t.Errorf("the command's go.mod is\n%s\n%v, want a requirement of v0.1.0 and no replacement", text, err)
	}
	if left, err := command.Output(t.Context(), original, nil, "git", "status", "--porcelain"); err != nil || left != "?? store/new.go" {
		t.Errorf("the checkout has the changes %q (%v), want those of before", left, err)
	}
}

// A command of the plan that fails ends the rehearsal, with the part of the plan and the output of the command.
func TestRehearseEndsAtFailure(t *testing.T) {
	t.Parallel()
	original := checkout(t, "v0.0.0")
	toolstest.Write(t, original, map[string]string{"cmd/other.go": "package main\n\nimport _ \"example.org/m/gone\"\n"})
	err := rehearse(t.Context(), io.Discard, t.TempDir(), "v0.1.0", []string{original, "cmd", "."})
	if err == nil || !strings.Contains(err.Error(), "Last cmd") || !strings.Contains(err.Error(), "does not contain package example.org/m/gone") {
		t.Errorf("the rehearsal ended with %v, want the package that is missing", err)
	}
}
