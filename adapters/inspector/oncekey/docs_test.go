package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/cli.md shows each golden file as it is, and each subcommand has its section.
func TestDocumentedOutput(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d golden files (%v), want at least 10", len(files), err)
	}
	for _, name := range files {
		output, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page, "```console\n"+string(output)+"```\n") {
			t.Errorf("docs/cli.md does not show %s:\n%s", name, output)
		}
	}
	help, code := said(t, "", "--help")
	if code != exitDone {
		t.Fatal(help)
	}
	_, list, _ := strings.Cut(help, "Commands:\n")
	commands := regexp.MustCompile(`(?m)^  ([a-z]+)`).FindAllStringSubmatch(list, -1)
	if len(commands) < 13 {
		t.Errorf("--help names %d commands, want at least 13:\n%s", len(commands), help)
	}
	for _, command := range commands {
		if !strings.Contains(page, "\n## "+command[1]+"\n") {
			t.Errorf("docs/cli.md has no section %s", command[1])
		}
	}
}
