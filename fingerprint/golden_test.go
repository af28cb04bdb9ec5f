package fingerprint_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/testkit"
)

// goldenRequest is a line of testdata/v0.1.0/fingerprints.jsonl: a request, most of them from
// a generator, and its fingerprint by version 1 of the rules.
type goldenRequest struct {
	Method      string   `json:"method"`
	Path        string   `json:"path"`
	RawQuery    []byte   `json:"rawQuery"` // in base64, for it need not be UTF-8
	ContentType string   `json:"contentType"`
	Body        []byte   `json:"body"`
	Exclude     []string `json:"exclude"`
	Fingerprint string   `json:"fingerprint"`
}

// Stored fingerprints outlive a deployment, so no change of the code may change a
// fingerprint in the file. A changed rule needs another version in the first part,
// and another file.
func TestGoldenCorpus(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/v0.1.0/fingerprints.jsonl")
	testkit.Must(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	count := 0
	for ; lines.Scan(); count++ {
		var r goldenRequest
		testkit.Must(t, json.Unmarshal(lines.Bytes(), &r))
		got := fingerprint.Of(fingerprint.Request{
			Method: r.Method, Path: r.Path, RawQuery: string(r.RawQuery), ContentType: r.ContentType, Body: r.Body,
		}, exclude(t, r.Exclude...))
		if got != r.Fingerprint {
			t.Errorf("line %d: got %s, want %s\nquery: %q\nbody: %q\nexcluding %q", count+1, got, r.Fingerprint, r.RawQuery, r.Body, r.Exclude)
		}
	}
	if err := lines.Err(); err != nil || count < 400 {
		t.Errorf("%d requests read: %v", count, err)
	}
}
