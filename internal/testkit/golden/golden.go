// Package golden keeps values that released versions have written, for tests that read them with today's code.
//
// The values of a release are in testdata/VERSION beside the package whose format they have, one a line in JSON. go test
// with -update writes those of [Version]. Those of earlier releases never change.
package golden

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Version is the release that is prepared.
const Version = "v0.1.0"

var update = flag.Bool("update", false, "write the golden files of "+Version)

// Each calls read with each value in the files of one name, of all versions. With -update it writes those of this
// version first.
func Each[T any](t *testing.T, name string, write func(t *testing.T) []T, read func(t *testing.T, value T)) {
	t.Helper()
	own := filepath.Join("testdata", Version, name)
	if *update {
		save(t, own, write(t))
	}
	files, err := filepath.Glob(filepath.Join("testdata", "v*", name))
	if err != nil || !slices.Contains(files, own) {
		t.Fatalf("found %v (%v), want %s: go test -update writes it", files, err, own)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var value T
			if err := json.Unmarshal(lines.Bytes(), &value); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			read(t, value)
		}
		if err := lines.Err(); err != nil || len(text) == 0 {
			t.Fatalf("%s has %d bytes (%v), want values", file, len(text), err)
		}
	}
}

// Names expects that the names of all versions are still among today's.
func Names(t *testing.T, name string, today []string) {
	t.Helper()
	sorted := slices.Compact(slices.Sorted(slices.Values(today)))
	Each(t, name, func(*testing.T) []string { return sorted }, func(t *testing.T, released string) {
		t.Helper()
		if !slices.Contains(today, released) {
			t.Errorf("%s of a released version is not among %v", released, sorted)
		}
	})
}

// Want compares a value with that of a released version, both as JSON. A field that a later version adds is zero in both.
func Want[T any](t *testing.T, got, released T) {
	t.Helper()
	var reread T // bytes that are no UTF-8 are others there, as in the file
	if err := json.Unmarshal(text(t, got), &reread); err != nil {
		t.Fatal(err)
	}
	if is, want := text(t, reread), text(t, released); !bytes.Equal(is, want) {
		t.Errorf("got\n%s\nwant that of a released version\n%s", is, want)
	}
}

func text(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func save[T any](t *testing.T, file string, values []T) {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for _, value := range values {
		if err := encoder.Encode(value); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
