package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/tools/internal/toolstest"
)

// The program prints the year, and that of a bubble.
const program = `package p

import (
	"testing"
	"testing/synctest"
	"time"
)

func Test(t *testing.T) {
	year, begin := time.Now().Year(), time.Now()
	synctest.Test(t, func(t *testing.T) {
		if year != 2041 || time.Now().Year() != 2000 || time.Since(begin) > 0 {
			t.Error(year, time.Now())
		}
	})
	if spent := time.Since(begin); spent < 0 || spent > time.Hour {
		t.Error(spent)
	}
}
`

// plainFolder is a folder without a space in its name, which that of TMPDIR may have.
func plainFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/tmp", "otherday") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// Case 74: the suite can run on any day.
func TestProgramOnAnotherDay(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	toolstest.Write(t, folder, map[string]string{"go.mod": "module p\n\ngo 1.26\n", "p_test.go": program})
	if err := run(plainFolder(t), []string{"2041-03-01T00:00:00Z", "go", "-C", folder, "test", "./..."}); err != nil {
		t.Error(err)
	}
}

// A program that is not built by go, in which a wait ends after its time.
func TestOtherProgramOnAnotherDay(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("clock.c is for Linux")
	}
	if err := run(plainFolder(t), []string{"2041-03-01T00:00:00Z", "sh", "-c", "test $(date +%Y) = 2041 && sleep 0.01"}); err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"want a time":     {"2041-03-01T00:00:00Z"},
		"cannot parse":    {"tomorrow", "true"},
		"is in the past":  {"2001-01-01T00:00:00Z", "true"},
		"executable file": {"2041-03-01T00:00:00Z", "no-such-command"},
	} {
		if err := run(plainFolder(t), args); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", args, err, says)
		}
	}
	spaced := filepath.Join(plainFolder(t), "a b")
	if err := run(spaced, []string{"2041-03-01T00:00:00Z", "true"}); err == nil || !strings.Contains(err.Error(), "has a space") {
		t.Errorf("a folder with a space: %v", err)
	}
	if _, err := shifted("package time\n"); err == nil {
		t.Error("a package time without Now is accepted")
	}
}
