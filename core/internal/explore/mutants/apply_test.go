package main

import "testing"

// Each mutant changes one place of the engine, and compiles. Whether the explorer notices
// a mutant is the subject of make mutants, which takes minutes.
func TestEachMutantApplies(t *testing.T) {
	t.Parallel()
	mutants, err := readAll(t.Context(), ".", nil)
	if err != nil || len(mutants) < 40 {
		t.Fatalf("%d mutants, %v", len(mutants), err)
	}
}
