package fingerprint_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/fingerprint"
)

// BenchmarkRatios measures how many times as fast a fingerprint is as other ways
// through the same document, and as a sketch behind it. All take turns in short
// slices, so that other work of the machine slows all alike; a ratio is the
// median of the slices' ratios.
func BenchmarkRatios(b *testing.B) {
	x := exclude(b, "timestamp", "meta.trace.id", "items.*.nonce")
	bodies := []struct {
		name string
		body []byte
	}{{"200B", paymentOf(200)}, {"400B", paymentOf(400)}, {"2KB", paymentOf(2 << 10)}, {"64KB", paymentOf(64 << 10)}, {"1MB", paymentOf(1 << 20)}, {"Reversed", reversed()}}
	for _, document := range bodies {
		b.Run(document.name, func(b *testing.B) {
			body := document.body
			r := fingerprint.Request{Method: "POST", Path: "/payments", ContentType: "application/json", Body: body}
			reading := fingerprint.Read(r, x)
			defer reading.Close()
			buffer := make([]byte, 0, fingerprint.MaxSketch)
			ratios(b, func() { readAndClose(r, x, buffer) }, map[string]func(){
				"x_json.Valid":    func() { json.Valid(body) },
				"x_encoding/json": func() { decodeFilterEncodeHash(body, "timestamp") },
				"x_SHA-256":       func() { sha256.Sum256(body) },
				"x_Sketch":        func() { reading.AppendSketch(buffer, sketchKey) },
			})
			b.ReportMetric(float64(len(body)), "bytes")
		})
	}
}

func readAndClose(r fingerprint.Request, x *fingerprint.Exclusion, buffer []byte) {
	reading := fingerprint.Read(r, x)
	reading.AppendFingerprint(buffer)
	reading.Close()
}

// ratios reports for each of the others how many times as long as subject it takes.
func ratios(b *testing.B, subject func(), others map[string]func()) {
	b.Helper()
	const turns = 41
	b.ReportMetric(0, "ns/op") // which would count all of them
	for b.Loop() {
		var own []time.Duration
		found := map[string][]float64{}
		for range turns {
			base := slice(subject)
			own = append(own, base)
			for name, other := range others {
				found[name] = append(found[name], float64(slice(other))/float64(base))
			}
		}
		b.ReportMetric(float64(median(own)), "ns")
		for name, all := range found {
			b.ReportMetric(median(all), name)
		}
	}
}

// slice returns how long run takes: the average of a millisecond, or one run.
func slice(run func()) time.Duration {
	run() // with a warm cache, as all
	var passed time.Duration
	start, count := time.Now(), 0
	for batch := 1; passed < time.Millisecond; batch = min(2*batch, 64) {
		for range batch {
			run()
		}
		count += batch
		passed = time.Since(start)
	}
	return passed / time.Duration(count)
}

func median[T int64 | float64 | time.Duration](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}

// paymentOf returns a JSON document of about size bytes, as clients send
// documents: unordered members, records in an array.
func paymentOf(size int) []byte {
	var doc bytes.Buffer
	doc.WriteString(`{"timestamp":"2026-05-01T12:00:00Z","amount":1999,"currency":"EUR","customer":{"id":"cus_1042","email":"ada@example.org"},"items":[`)
	for i := 0; doc.Len() < size-120; i++ {
		if i > 0 {
			doc.WriteByte(',')
		}
		fmt.Fprintf(&doc, `{"sku":"sku-%06d","quantity":%d,"price":%d.50,"description":"A thing of some use, number %d","nonce":"%08x"}`, i, i%7+1, i%100, i, uint64(i)*2654435761)
	}
	doc.WriteString(`],"meta":{"trace":{"id":"4bf92f3577b34da6a3ce929d0e0e4736"}}}`)
	return doc.Bytes()
}

// decodeFilterEncodeHash is a simple fingerprint with encoding/json.
func decodeFilterEncodeHash(doc []byte, excluded string) {
	decoder := json.NewDecoder(bytes.NewReader(doc))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		panic(err)
	}
	canonical, err := json.Marshal(without(value, excluded))
	if err != nil {
		panic(err)
	}
	sha256.Sum256(canonical)
}

func without(value any, excluded string) any {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if strings.EqualFold(name, excluded) {
				delete(value, name)
			} else {
				value[name] = without(inner, excluded)
			}
		}
	case []any:
		for i, inner := range value {
			value[i] = without(inner, excluded)
		}
	}
	return value
}
