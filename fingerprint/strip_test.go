package fingerprint_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestStrip(t *testing.T) {
	t.Parallel()
	for _, test := range excludeTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			stripped, err := fingerprint.Strip([]byte(test.document), test.fields)
			testkit.Must(t, err)
			var got, want bytes.Buffer
			if err := json.Compact(&got, stripped); err != nil {
				t.Fatalf("Strip left %s: %v", stripped, err)
			}
			testkit.Must(t, json.Compact(&want, []byte(test.left)))
			testkit.Equal(t, got.String(), want.String(), "got.String()")
		})
	}
}

func TestStripKeepsTheRestUnchanged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ document, left string }{
		{`{ "b" : 1.0 , "\u0061" : "\/" }`, `{ "b" : 1.0 , "\u0061" : "\/" }`},
		{`{ "b" : 1.0 , "t" : 1, "t" : 2, "c" : [ ] }`, `{ "b" : 1.0, "c" : [ ] }`},
	} {
		document := []byte(test.document)
		stripped, err := fingerprint.Strip(document, []string{"t"})
		if err != nil || string(stripped) != test.left {
			t.Errorf("got %s, %v; want %s", stripped, err, test.left)
		}
		clear(stripped)
		testkit.Equal(t, string(document), test.document, "the result of Strip shares memory with the document")
	}
}

func TestStripErrors(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		``:                              "not valid JSON",
		`{"a":1`:                        "not valid JSON",
		`{"a":01}`:                      "not valid JSON",
		strings.Repeat("[", 1<<20):      "deeper than 512",
		nested(513, ""):                 "deeper than 512",
		nested(512, "") + nested(1, ""): "not valid JSON",
	} {
		stripped, err := fingerprint.Strip([]byte(document), []string{"a"})
		if err == nil || stripped != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Strip(%.20q) = %q, %v; want an error with %q", document, stripped, err, want)
		}
	}
}

// An invalid character makes a document invalid, at any position of a string and of a
// word.
func TestCharactersInStrings(t *testing.T) {
	t.Parallel()
	for char := range 256 {
		for at := range 20 {
			text := bytes.Repeat([]byte("x"), 24)
			text[at] = byte(char)
			body := slices.Concat([]byte(`["`), text, []byte(`"]`))
			stripped, err := fingerprint.Strip(body, nil)
			if valid := json.Valid(body); (err == nil) != valid || valid && !bytes.Equal(stripped, body) {
				t.Errorf("%q: %v", body, err)
			}
		}
	}
}
