package redisstore

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/oncekey/oncekey/core/storage"
)

// earlierLine is line as the version before digests declared it.
type earlierLine struct {
	Token       string     `json:"token"`
	State       string     `json:"state"`
	Version     int        `json:"v"`
	Attempt     uint64     `json:"attempt"`
	TookOver    bool       `json:"took_over,omitempty"`
	Fingerprint string     `json:"fingerprint,omitempty"`
	LeaseMS     int64      `json:"lease_ms,omitempty"`
	RetainMS    int64      `json:"retain_ms,omitempty"`
	At          string     `json:"at"`
	Status      int        `json:"status,omitempty"`
	Headers     [][]string `json:"headers,omitempty"`
	Sketch      []byte     `json:"sketch,omitempty"`
	Size        int        `json:"size"`
}

// Case 40: while pods of two versions run, each reads the other's records. The
// version before left lines it could not read by hand to encoding/json.
func TestVersionBeforeDigestsReadsTheseRecords(t *testing.T) {
	t.Parallel()
	for name, value := range usualValues() {
		first, _, _ := bytes.Cut(value, []byte{'\n'})
		var now line
		if err := now.read(string(first)); err != nil {
			t.Fatalf("%s is not read: %v", name, err)
		}
		var before earlierLine
		if err := json.Unmarshal(first, &before); err != nil {
			t.Fatalf("%s: the version before reads %s: %v", name, first, err)
		}
		want := earlierLine{
			Token: now.Token, State: now.State, Version: now.Version, Attempt: now.Attempt, TookOver: now.TookOver,
			Fingerprint: now.Fingerprint, LeaseMS: now.LeaseMS, RetainMS: now.RetainMS, At: now.At, Status: now.Status,
			Headers: now.Headers, Sketch: now.Sketch, Size: now.Size,
		}
		if !reflect.DeepEqual(before, want) {
			t.Errorf("%s: the version before reads %+v\nwant %+v", name, before, want)
		}
	}
}

// Case 40: a record of the version before has no digest, and is compared by its
// fingerprint.
func TestRecordsOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`{"token":"abcd0000000000000000000000000000","state":"in_progress","v":1,"attempt":2,"took_over":true,"fingerprint":"sha256:f",` +
			`"lease_ms":30000,"retain_ms":86400000,"at":"2026-01-02T15:04:05Z","size":0}` + "\n",
		`{"token":"abcd0000000000000000000000000000","state":"completed","v":1,"attempt":2,"fingerprint":"sha256:f",` +
			`"at":"2026-01-02T15:04:05Z","status":201,"headers":[["set","Content-Type","application/json"]],"size":3}` + "\n{}\n",
	} {
		held, err := decode([]byte(value))
		if err != nil || held.record.Fingerprint != "sha256:f" || held.record.Digest != (storage.Digest{}) {
			t.Errorf("decode of %s returned %+v and %v", value, held, err)
		}
	}
}
