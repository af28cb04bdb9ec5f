package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/tools/internal/toolstest"
)

const library = `// Package m is a library.
package m

// Pay pays.
func Pay(amount int) error { return nil }
`

// tagged is a repository with a library, a module in its folder sub, and a command, at a tag each.
func tagged(t *testing.T) string {
	t.Helper()
	folder := untagged(t)
	for _, tag := range []string{"v0.1.0", "v0.1.0-rc.1", "v0.no", "sub/v0.3.0", "cmd/v0.1.0"} {
		toolstest.Git(t, folder, "tag", tag)
	}
	return folder
}

func untagged(t *testing.T) string {
	t.Helper()
	return toolstest.Repository(t, map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.26\n", "m.go": library, acceptedFile: "",
		"internal/i.go": "package internal\n\nconst Of = 1\n",
		"sub/go.mod":    "module example.org/m/sub\n\ngo 1.26\n", "sub/sub.go": strings.Replace(library, "package m", "package sub", 1),
		"cmd/go.mod": "module example.org/m/cmd\n\ngo 1.26\n", "cmd/main.go": "package main\n\nfunc main() {}\n\nfunc Pay() {}\n",
	})
}

func TestChanges(t *testing.T) {
	t.Parallel()
	const removed, changed = "example.org/m: Pay: removed", "example.org/m/sub: Pay: changed from func(int) error to func(int64) error"
	for name, row := range map[string]struct {
		change   map[string]string
		accepted string
		prints   string
		fails    string // "" for a change that passes
	}{
		"none":             {},
		"compatible":       {change: map[string]string{"m.go": library + "\nfunc Refund() {}\n"}, prints: "since v0.1.0, compatible: example.org/m: Refund: added\n"},
		"internal":         {change: map[string]string{"internal/i.go": "package internal\n"}},
		"of a command":     {change: map[string]string{"cmd/main.go": "package main\n\nfunc main() {}\n"}},
		"removed":          {change: map[string]string{"m.go": "package m\n"}, fails: removed},
		"in a submodule":   {change: map[string]string{"sub/sub.go": "package sub\n\nfunc Pay(amount int64) error { return nil }\n"}, fails: changed},
		"accepted":         {change: map[string]string{"m.go": "package m\n"}, accepted: removed},
		"accepted, undone": {accepted: removed, fails: "remove these lines:\n" + removed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := tagged(t)
			files := map[string]string{acceptedFile: row.accepted + "\n"}
			maps.Copy(files, row.change)
			toolstest.Write(t, folder, files)
			var out strings.Builder
			err := run(t.Context(), &out, []string{folder, ".", "sub", "cmd"})
			if out.String() != row.prints {
				t.Errorf("it printed %q, want %q", out.String(), row.prints)
			}
			switch {
			case row.fails == "" && err != nil:
				t.Errorf("it ended with %v, want no error", err)
			case row.fails != "" && (err == nil || !strings.HasSuffix(err.Error(), row.fails)):
				t.Errorf("it ended with %v, want %s", err, row.fails)
			}
		})
	}
}

// Before the first release there is nothing that a change could break.
func TestWithoutTag(t *testing.T) {
	t.Parallel()
	folder := untagged(t)
	var out strings.Builder
	const want = ".: no tag before this commit, nothing to compare with\nsub: no tag before this commit, nothing to compare with\n"
	if err := run(t.Context(), &out, []string{folder, ".", "sub"}); err != nil || out.String() != want {
		t.Errorf("it printed %q and ended with %v, want %q", out.String(), err, want)
	}
}

// An API that does not compile is compared with nothing.
func TestBroken(t *testing.T) {
	t.Parallel()
	folder := tagged(t)
	toolstest.Write(t, folder, map[string]string{"m.go": library + "\nvar Broken int = \"\"\n"})
	if err := run(t.Context(), new(strings.Builder), []string{folder, "."}); err == nil || !strings.Contains(err.Error(), "m.go:") {
		t.Errorf("it ended with %v, want the error of the compiler", err)
	}
}
