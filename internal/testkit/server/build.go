package serverproc

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Build builds a program of the module in a folder, and returns its path, which is good until the end of the test. Tests that
// share the program get it from [Shared.Get].
func Build(t testing.TB, module, program string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		Missing(t, "needs the go tool: "+err.Error())
	}
	binary := filepath.Join(FolderOnDisk(t), "program")
	build := exec.CommandContext(context.Background(), "go", slices.Concat([]string{"build", "-ldflags=-s", "-o", binary}, flags, []string{program})...)
	build.Dir = module
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("serverproc: go build %s: %v\n%s", program, err, output)
	}
	return binary
}
