package fingerprint_test

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
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
