package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/tools/internal/toolstest"
)

// profile has package a covered by two test binaries that ran different halves of it, b by half, and c not at all.
const profile = `mode: atomic
example.org/m/a/a.go:1.1,2.2 6 1
example.org/m/a/a.go:3.1,4.2 4 0
example.org/m/b/b.go:1.1,2.2 5 9
example.org/m/b/b.go:3.1,4.2 5 0
example.org/m/a/a.go:1.1,2.2 6 0
example.org/m/a/a.go:3.1,4.2 4 2
example.org/m/c/internal/c.go:1.1,2.2 80 0
example.org/m/d/d.go:1.1,2.2 0 0
`

func TestGate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, profile, exclude string
		minimum                float64
		printed, refused       string
	}{
		{"met", profile, "/internal", 50, "75.0%     20 statements  total", ""},
		{"blocks of several test binaries count once", profile, "/internal", 50, "100.0%     10 statements  example.org/m/a\n", ""},
		{"one package below fails", profile, "/internal", 70, "50.0%     10 statements  example.org/m/b\n", "below 70% of statements: example.org/m/b"},
		{"untouched package fails", profile, "^$", 50, "0.0%     80 statements", "example.org/m/c"},
		{"nothing measured fails", "mode: atomic\n", "^$", 0, "", "no statement that counts"},
		{"garbage fails", "mode: atomic\nhello\n", "^$", 0, "", "doesn't match expected format"},
		{"bad pattern fails", profile, "(", 0, "", "missing closing )"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			toolstest.Write(t, folder, map[string]string{"coverage.out": test.profile})
			var printed strings.Builder
			err := run(&printed, filepath.Join(folder, "coverage.out"), test.minimum, test.exclude)
			if !strings.Contains(printed.String(), test.printed) {
				t.Errorf("it printed %q, want %q", printed.String(), test.printed)
			}
			if strings.Contains(printed.String(), "/m/d") {
				t.Errorf("it printed %q, want nothing about a package without statements", printed.String())
			}
			if test.refused == "" && err != nil {
				t.Errorf("it failed with %v", err)
			}
			if test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
				t.Errorf("it ended with %v, want %q", err, test.refused)
			}
		})
	}
}
