package postgrestest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

func TestVersionOlderThanTheOldestSupportedIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ banner, complaint string }{
		{"postgres (PostgreSQL) 13.0", ""},
		{"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", ""},
		{"postgres (PostgreSQL) 19devel", ""},
		{"postgres (PostgreSQL) 12.22", "PostgreSQL 12.22 is too old: 13 is the oldest"},
		{"postgres (PostgreSQL) 9.6.24", "too old"},
		{"command not understood", "no version that can be read"},
	}
	for _, test := range tests {
		err := checkVersion(test.banner)
		if test.complaint == "" && err != nil {
			t.Errorf("%q gives %v, want no error", test.banner, err)
		}
		if test.complaint != "" && (err == nil || !strings.Contains(err.Error(), test.complaint)) {
			t.Errorf("%q gives %v, want %q", test.banner, err, test.complaint)
		}
	}
}

func TestMissingProgramsSayWhatToInstall(t *testing.T) {
	t.Parallel()
	_, err := locate(t.TempDir(), nil)
	if err == nil || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Errorf("the error is %v, want the name of the package to install", err)
	}
}

func TestHighestVersionComesFirst(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, version := range []string{"9", "17", "16"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(root, version, "bin"), 0o700))
	}
	var want []string
	for _, version := range []string{"17", "16", "9"} {
		want = append(want, filepath.Join(root, version, "bin"))
	}
	if found := installed([]string{filepath.Join(root, "*", "bin")}); !slices.Equal(found, want) {
		t.Errorf("the folders are %q", found)
	}
}

func TestProgramThatDoesNotRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"initdb", "postgres", "createdb", "pg_basebackup"} {
		testkit.Must(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/false\n"), 0o700))
	}
	if _, err := locate(folder, nil); err == nil || !strings.Contains(err.Error(), "--version") {
		t.Errorf("the error is %v, want the name of the program", err)
	}
}
