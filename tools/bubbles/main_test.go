package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/tools/internal/toolstest"
)

const program = `package p

import (
	"testing"
	"testing/synctest"
)

var everywhere *shop

func Test(t *testing.T) {
	var s *shop
	synctest.Test(t, func(t *testing.T) {
		BODY
	})
	s.read()
}
`

// Case 74: values of a bubble do not leave it.
func TestLeaks(t *testing.T) {
	t.Parallel()
	for body, leaves := range map[string]string{
		"s = open(t)":                                     "s",
		"s.records = open(t)":                             "s",
		"s.records[0].at, _ = open(t)":                    "s",
		"*s = open(t)":                                    "s",
		"everywhere = open(t)":                            "everywhere",
		"func() { s = open(t) }()":                        "s",
		"s = open(t) // leaves the bubble:":               "s",
		"s := open(t); s.count = 1":                       "",
		"s := open(t)\n\t\tfunc() { s = open(t) }()":      "",
		"s = open(t) // leaves the bubble: a number":      "",
		"// leaves the bubble: a number\n\t\ts = open(t)": "",
		"_ = open(t)":                                     "",
	} {
		leaks, err := leaksOf("p_test.go", []byte(strings.Replace(program, "BODY", body, 1)))
		switch {
		case err != nil:
			t.Errorf("%q: %v", body, err)
		case leaves == "" && len(leaks) > 0:
			t.Errorf("%q: found %q, and nothing leaves", body, leaks)
		case leaves != "" && (len(leaks) != 1 || !strings.Contains(leaks[0], " "+leaves+" leaves")):
			t.Errorf("%q: found %q, want %s", body, leaks, leaves)
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	toolstest.Write(t, folder, map[string]string{"p_test.go": strings.Replace(program, "BODY", "s = open(t)", 1)})
	var out bytes.Buffer
	if err := run(&out, folder); err == nil || !strings.HasPrefix(out.String(), filepath.Join(folder, "p_test.go")+":13:3: ") {
		t.Errorf("got %v and %q, want an error and the place", err, &out)
	}
	if err := run(&out, t.TempDir()); err != nil {
		t.Error("an empty folder:", err)
	}
}
