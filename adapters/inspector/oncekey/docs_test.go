package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// docs/cli.md shows each golden file, possibly without some lines, and each subcommand has its section.
func TestDocumentedOutput(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/cli.md")
	testkit.Must(t, err)
	page := string(text)
	blocks := regexp.MustCompile("(?s)```console\n(.*?)```\n").FindAllStringSubmatch(page, -1)
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d golden files (%v), want at least 10", len(files), err)
	}
	for _, name := range files {
		output, err := os.ReadFile(name)
		testkit.Must(t, err)
		if !slices.ContainsFunc(blocks, func(block []string) bool { return testkit.Shown(block[1]).Match(output) }) {
			t.Errorf("docs/cli.md does not show %s:\n%s", name, output)
		}
	}
	help, code := said(t, "--help")
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

var (
	inCode   = regexp.MustCompile("`(oncekey [a-z][^`]*)`")
	inShell  = regexp.MustCompile(`(?m)^\$ (oncekey [a-z][^\n|]*)`)
	inAlerts = regexp.MustCompile(`"(oncekey\s+[a-z][^"]*)"`)
	word     = regexp.MustCompile(`"[^"]*"|\S+`)
)

// Every command line that operators read, in the documentation and in alerts, is one.
func TestDocumentedCommandLines(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	pages, err := filepath.Glob("../../../docs/*.md")
	testkit.Must(t, err)
	count := 0
	for _, name := range append(pages, "../../../examples/observability/alerts.yaml") {
		text, err := os.ReadFile(name)
		testkit.Must(t, err)
		for _, pattern := range []*regexp.Regexp{inCode, inShell, inAlerts} {
			for _, line := range pattern.FindAllSubmatch(text, -1) {
				count++
				if err := parses(string(line[1])); err != nil {
					t.Errorf("%s: %s: %v", name, line[1], err)
				}
			}
		}
	}
	if count < 30 {
		t.Errorf("%d command lines are documented, want at least 30", count)
	}
}

// parses reads a command line, and runs nothing.
func parses(line string) error {
	var args []string
	for _, one := range word.FindAllString(line, -1)[1:] {
		args = append(args, strings.Trim(one, `"`))
	}
	_, err := parserOf(new(command), world{}).Parse(args)
	return err
}
