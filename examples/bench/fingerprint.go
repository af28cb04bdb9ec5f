package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/peers"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
	"github.com/oncekey/oncekey/fingerprint"
)

const (
	ourFingerprint = "oncekey"
	ourExclusion   = "oncekey, with exclusions"
	theirExclusion = "encoding/json, with exclusions"
)

// documents are the sizes that fingerprints are compared for.
var documents = []struct {
	name  string
	bytes int
}{{"200 B", 200}, {"1 KB", 1 << 10}, {"64 KB", 64 << 10}, {"1 MB", 1 << 20}}

func documentComparison(name string) string { return "A document of " + name }

// excluded are the fields that differ in each attempt.
var excluded = []string{"clientTimestamp", "requestNonce"}

// fingerprints compares the fingerprint with other methods.
func fingerprints(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{
		Title: "Fingerprint",
		Text: []string{
			"Orders of a few nested members each, two of which are excluded where the name says so. json.Valid and SHA-256 alone are floors, " +
				"not fingerprints. Who canonicalises is followed by SHA-256.",
		},
	}
	exclusion, err := fingerprint.Exclude(excluded...)
	if err != nil {
		return section, err
	}
	for _, size := range documents {
		document := orders(size.bytes)
		if err := s.compareFingerprints(ctx, &section, size.name, document, exclusion); err != nil {
			return section, err
		}
	}
	err = s.compareReversed(ctx, &section)
	return section, err
}

func (s *suite) compareFingerprints(ctx context.Context, section *report.Section, name string, document []byte, exclusion *fingerprint.Exclusion) error {
	request := fingerprint.Request{Method: "POST", Path: "/payments", ContentType: "application/json", Body: document}
	room := make([]byte, 0, fingerprint.Size)
	arms := []harness.Arm{
		{Name: ourFingerprint, Run: repeat(func() error { room = takeFingerprint(room, request, nil); return nil })},
		{Name: ourExclusion, Run: repeat(func() error { room = takeFingerprint(room, request, exclusion); return nil })},
		{Name: "SHA-256 alone", Run: repeat(func() error { sha256.Sum256(document); return nil })},
		{Name: "json.Valid", Run: repeat(func() error { json.Valid(document); return nil })},
		{Name: "encoding/json", Run: repeat(func() error { _, err := peers.JSONFingerprint(document, nil); return err })},
		{Name: theirExclusion, Run: repeat(func() error { _, err := peers.JSONFingerprint(document, excluded); return err })},
		{Name: "gowebpki/jcs", Run: repeat(func() error { return hash(jcs.Transform(document)) })},
		{Name: "jsontext", Run: repeat(func() error {
			value := jsontext.Value(bytes.Clone(document))
			return hash(value, value.Canonicalize())
		})},
	}
	return s.compareDocuments(ctx, section, documentComparison(name), arms)
}

// takeFingerprint does the engine's work for each request.
func takeFingerprint(room []byte, r fingerprint.Request, x *fingerprint.Exclusion) []byte {
	reading := fingerprint.Read(r, x)
	defer reading.Close()
	return reading.AppendFingerprint(room[:0])
}

// hash hashes a canonical document.
func hash(canonical []byte, err error) error {
	sha256.Sum256(canonical)
	return err
}

func (s *suite) compareDocuments(ctx context.Context, section *report.Section, name string, arms []harness.Arm) error {
	err := s.compare(ctx, section, comparison{
		name, s.plan(1), arms,
		[]column{timeColumn, bytesColumn, allocsColumn, timesColumn("x oncekey", arm(ourFingerprint))},
	})
	return err
}

// compareReversed sorts 100,000 members in reverse order. A quadratic sort would take
// minutes.
func (s *suite) compareReversed(ctx context.Context, section *report.Section) error {
	document := reversed(100_000)
	request := fingerprint.Request{Method: "POST", Path: "/payments", ContentType: "application/json", Body: document}
	return s.compareDocuments(ctx, section, "100,000 members in reverse order", []harness.Arm{
		{Name: ourFingerprint, Run: repeat(func() error { fingerprint.Read(request, nil).Close(); return nil })},
		{Name: "encoding/json", Run: repeat(func() error { _, err := peers.JSONFingerprint(document, nil); return err })},
	})
}

// orders returns a JSON document of a given size, at least 200 bytes.
func orders(size int) []byte {
	const head, tail = `{"requestNonce":"n-83f1","items":[`, `],"clientTimestamp":"2026-01-02T15:04:05Z","note":"`
	var b strings.Builder
	b.WriteString(head)
	for i := 0; ; i++ {
		fmt.Fprintf(&b, `{"sku":"sku-%06d","quantity":%d,"price":{"currency":"EUR","amount":%d.50}}`, i, i%9+1, 10+i%500)
		if b.Len()+len(tail)+100 > size {
			break
		}
		b.WriteByte(',')
	}
	b.WriteString(tail)
	return padded(b.String(), size)
}

func reversed(members int) []byte {
	var b strings.Builder
	b.WriteByte('{')
	for i := members; i > 0; i-- {
		fmt.Fprintf(&b, `"k%06d":0,`, i)
	}
	return []byte(strings.TrimSuffix(b.String(), ",") + "}")
}
