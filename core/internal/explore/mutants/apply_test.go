package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each mutant changes one place of the engine. Whether the explorer notices a mutant
// is the subject of make mutants, which takes minutes.
func TestEachMutantApplies(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.mutant")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d mutants, %v", len(files), err)
	}
	for _, file := range files {
		m, err := read(file)
		if err != nil {
			t.Error(err)
			continue
		}
		source, err := os.ReadFile(filepath.Join("..", "..", "..", "..", m.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if n := strings.Count(string(source), m.old); n != 1 || m.old == m.new || m.breaks == "" {
			t.Errorf("%s: the old text occurs %d times in %s, want once", file, n, m.file)
		}
	}
}
