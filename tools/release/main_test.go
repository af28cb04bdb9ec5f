package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkout is a repository with a root module, one that requires it, one that requires both, and a command.
func checkout(t *testing.T, version string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module example.org/m\n",
		"store/go.mod": "module example.org/m/store\n\nrequire example.org/m " + version + "\n",
		"cmd/go.mod":   "module example.org/m/cmd\n\nrequire example.org/m " + version + "\n\nreplace example.org/m => ../\n",
		"cmd/main.go":  "// Cmd is a command.\npackage main\n",
		"both/go.mod":  "module example.org/m/both\n\nrequire (\n\texample.org/m " + version + "\n\texample.org/m/store " + version + "\n)\n",
	} {
		name = filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, arguments := range []string{"init -q", "add .", "-c user.name=n -c user.email=e@example.org commit -q -m all"} {
		command := exec.CommandContext(t.Context(), "git", strings.Fields(arguments)...)
		command.Dir = folder
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", arguments, err, output)
		}
	}
	return folder
}

const tags = `# Then the tags, each after those of the modules that it requires:
git tag v0.1.0 && git push origin v0.1.0
git tag store/v0.1.0 && git push origin store/v0.1.0
git tag both/v0.1.0 && git push origin both/v0.1.0
# Last cmd, whose tag has a go.mod without replacements:
git checkout --detach
go -C cmd mod edit -dropreplace=example.org/m
GOWORK=off go -C cmd mod tidy && git commit -am 'Require v0.1.0 of the library'
git tag cmd/v0.1.0 && git push origin cmd/v0.1.0
git checkout -
`

func TestRun(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ required, want string }{
		"first": {"v0.0.0", `# First, one commit with these requirements:
go -C cmd mod edit -require=example.org/m@v0.1.0
go -C store mod edit -require=example.org/m@v0.1.0
go -C both mod edit -require=example.org/m@v0.1.0
go -C both mod edit -require=example.org/m/store@v0.1.0
make tidy
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
	if err := os.WriteFile(filepath.Join(dirty, "new.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, row := range map[string]struct{ version, folder string }{
		`VERSION is "": want a semantic version`:        {"", clean},
		`VERSION is "0.1.0": want a semantic version`:   {"0.1.0", clean},
		`VERSION is "v0.1": want a semantic version`:    {"v0.1", clean},
		`VERSION is "v2.0.0": the module paths have no`: {"v2.0.0", clean},
		"the checkout has changes":                      {"v0.1.0", dirty},
	} {
		var out strings.Builder
		err := run(t.Context(), &out, row.version, []string{row.folder, ".", "store"})
		if err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("version %q ends with %v and prints %q, want %q", row.version, err, out.String(), want)
		}
	}
}
