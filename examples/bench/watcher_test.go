package main

import (
	"os/exec"
	"testing"
)

// A program that runs between two looks disturbs, though it has ended. A quiet machine cannot
// be had in a test.
func TestWatcher(t *testing.T) {
	t.Parallel()
	w := watch([]int{0}, nil)
	defer w.stop()
	w.disturbed()
	if err := exec.CommandContext(t.Context(), "true").Run(); err != nil {
		t.Fatal(err)
	}
	if w.used > 0 && !w.disturbed() {
		t.Error("a program has run, and nothing was disturbed")
	}
	if w.used == 0 && !w.disturbed() {
		t.Error("a system without books counts as quiet")
	}
}
