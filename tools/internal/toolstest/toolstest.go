// Package toolstest makes the folders that tests of tools look at.
package toolstest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oncekey/oncekey/tools/internal/command"
)

// Write writes files into a folder, by their paths in it.
func Write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Repository returns a new repository with one commit of the files.
func Repository(t *testing.T, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	Write(t, folder, files)
	Git(t, folder, "init", "--quiet")
	Git(t, folder, "add", ".")
	Git(t, folder, "-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "--quiet", "--message", "all")
	return folder
}

// Git runs git in a folder.
func Git(t *testing.T, folder string, arguments ...string) {
	t.Helper()
	if _, err := command.Output(t.Context(), folder, nil, "git", arguments...); err != nil {
		t.Fatal(err)
	}
}
