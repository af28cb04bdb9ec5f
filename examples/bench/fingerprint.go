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
	for _, size := range []struct {
		name  string
		bytes int
	}{{"200 B", 200}, {"2 KB", 2 << 10}, {"64 KB", 64 << 10}, {"1 MB", 1 << 20}} {
		document := orders(size.bytes)
		c, err := s.compareFingerprints(ctx, &section, size.name, document, exclusion)
		if err != nil {
			return section, err
		}
		const ours = "oncekey, with exclusions"
		section.Targets = append(section.Targets,
			report.AtLeast(size.name+": encoding/json with exclusions : "+ours, 9, c.Ratio("encoding/json, with exclusions", ours)),
			report.AtLeast(size.name+": json.Valid : "+ours, 1.15, c.Ratio("json.Valid", ours)),
			report.Exactly(size.name+": allocations, "+ours, 0, int(c.Median(ours).Allocs)))
	}
	err = s.compareReversed(ctx, &section)
	return section, err
}

func (s *suite) compareFingerprints(ctx context.Context, section *report.Section, name string, document []byte, exclusion *fingerprint.Exclusion) (*harness.Comparison, error) {
	request := fingerprint.Request{Method: "POST", Path: "/payments", ContentType: "application/json", Body: document}
	room := make([]byte, 0, fingerprint.Size)
	arms := []harness.Arm{
		{Name: "oncekey", Run: repeat(func() error { room = takeFingerprint(room, request, nil); return nil })},
		{Name: "oncekey, with exclusions", Run: repeat(func() error { room = takeFingerprint(room, request, exclusion); return nil })},
		{Name: "SHA-256 alone", Run: repeat(func() error { sha256.Sum256(document); return nil })},
		{Name: "json.Valid", Run: repeat(func() error { json.Valid(document); return nil })},
		{Name: "encoding/json", Run: repeat(func() error { _, err := peers.JSONFingerprint(document, nil); return err })},
		{Name: "encoding/json, with exclusions", Run: repeat(func() error { _, err := peers.JSONFingerprint(document, excluded); return err })},
		{Name: "gowebpki/jcs", Run: repeat(func() error { return hash(jcs.Transform(document)) })},
		{Name: "jsontext", Run: repeat(func() error {
			value := jsontext.Value(bytes.Clone(document))
			return hash(value, value.Canonicalize())
		})},
	}
	return s.compareDocuments(ctx, section, fmt.Sprintf("%s (%d bytes)", name, len(document)), arms)
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

func (s *suite) compareDocuments(ctx context.Context, section *report.Section, caption string, arms []harness.Arm) (*harness.Comparison, error) {
	c, err := harness.Compare(ctx, s.plan(1), arms)
	if err != nil {
		return nil, err
	}
	table := report.Table{
		Caption: caption + "; A/A control " + report.Interval(c.Control()), Head: []string{"arm", "time", "bytes", "allocations", "x oncekey"},
	}
	for _, arm := range arms {
		cost := c.Median(arm.Name)
		table.Rows = append(table.Rows, []string{
			arm.Name, report.Duration(cost.Time), report.Number(float64(int(cost.Bytes))), report.Number(float64(int(cost.Allocs))),
			report.Interval(c.Ratio(arm.Name, "oncekey")),
		})
	}
	section.Tables = append(section.Tables, table)
	return c, nil
}

// compareReversed sorts 100,000 members in reverse order. A quadratic sort would take
// minutes.
func (s *suite) compareReversed(ctx context.Context, section *report.Section) error {
	document := reversed(100_000)
	request := fingerprint.Request{Method: "POST", Path: "/payments", ContentType: "application/json", Body: document}
	const ours, theirs = "oncekey", "encoding/json"
	arms := []harness.Arm{
		{Name: ours, Run: repeat(func() error { fingerprint.Read(request, nil).Close(); return nil })},
		{Name: theirs, Run: repeat(func() error { _, err := peers.JSONFingerprint(document, nil); return err })},
	}
	c, err := s.compareDocuments(ctx, section, fmt.Sprintf("100,000 members in reverse order (%d bytes)", len(document)), arms)
	if err != nil {
		return err
	}
	section.Targets = append(section.Targets, report.AtMost("100,000 reversed keys: oncekey : encoding/json", 1, c.Ratio(ours, theirs)))
	return nil
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
