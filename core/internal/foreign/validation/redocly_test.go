package validation_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// linter is where tools/install-redocly.sh puts Redocly's command.
const linter = "../../../../build/redocly/node_modules/.bin/redocly"

// Redocly's recommended rules find no error in our part of a document. Servers and security
// are the service's own, and so are the summaries of its own operations.
func TestRedocly(t *testing.T) {
	t.Parallel()
	for file, theirs := range map[string][]string{
		"document.json": {"security-defined"},
		"merged.json":   {"security-defined", "no-empty-servers", "operation-summary"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			lint(t, theirs, "../../../../adapters/openapi/testdata/"+file)
		})
	}
}

// lint runs Redocly's linter on files, without the rules for the service's own parts.
func lint(t *testing.T, theirs []string, files ...string) {
	t.Helper()
	program, err := filepath.Abs(linter)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		skip(t, "Redocly's linter is missing: sh tools/install-redocly.sh fetches it with npm")
	}
	arguments := []string{"lint", "--extends=recommended", "--format=stylish"}
	for _, rule := range theirs {
		arguments = append(arguments, "--skip-rule="+rule)
	}
	command := exec.CommandContext(context.Background(), program, append(arguments, files...)...)
	command.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("redocly: %v:\n%s", err, output)
	}
}
