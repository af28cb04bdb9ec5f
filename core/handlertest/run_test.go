package handlertest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/handlertest"
)

// child is set in the program that TestRunFailsTheTest starts.
const child = "ONCEKEY_HANDLERTEST_CHILD"

// Run fails the test of an unsafe handler, and prints the matrix and the advice. The test
// runs as a program of its own, because it must fail.
func TestRunFailsTheTest(t *testing.T) {
	t.Parallel()
	if os.Getenv(child) != "" {
		handlertest.Run(t, paying(nethttp, bank.naive))
		return
	}
	program := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestRunFailsTheTest$")
	program.Env = append(os.Environ(), child+"=1")
	printed, err := program.CombinedOutput()
	if err == nil {
		t.Error("the test of the naive handler has passed")
	}
	for _, want := range []string{
		"--- FAIL: TestRunFailsTheTest",
		"\n    POST pay.example/charges (fixture_test.go:",
		"WRONG: two effects\n",
		"two effects\n    \tafter: reply lost during POST pay.example/charges (fixture_test.go:",
		"\n    \twhy: the call at fixture_test.go:",
		"\n    \tdo: pass core.DeriveKey(ctx, \"charge\") to the provider",
	} {
		if !strings.Contains(strings.ReplaceAll(string(printed), "        ", "    "), want) {
			t.Errorf("the test printed\n%s\nwithout %q", printed, want)
		}
	}
}
