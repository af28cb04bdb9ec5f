package redisstore

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// usualLease is a lease as the engine holds it for an HTTP request.
func usualLease() storage.Lease {
	return storage.Lease{
		Claim: storage.Claim{
			Key: strings.Repeat("0123456789abcdef", 4), Token: storage.Token{0xab, 15: 0xcd}, Fingerprint: usualFingerprint, Digest: storage.Digest{0xd1, 15: 0x9e},
			LockTTL: 30 * time.Second, Retain: 24 * time.Hour, Remember: 0,
			Origin: storage.Origin{
				Route: "POST /payments", Holder: "pod-1", KeyHash: "9c56cc51b374c3ba", Trace: "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
			},
		},
		Attempt: 1, Age: 12 * time.Millisecond,
	}
}

// usualResult has a response of 300 bytes with one header, and the sketch of a request
// of eight members.
func usualResult() storage.Result {
	return storage.Result{
		State: storage.Completed, Status: 201, Header: storage.Header{{Name: "Content-Type", Value: "application/json"}},
		Body: bytes.Repeat([]byte("x"), 300), Sketch: bytes.Repeat([]byte{0xa5}, 80), Retain: 24 * time.Hour,
	}
}

func BenchmarkRecord(b *testing.B) {
	l, res := usualLease(), usualResult()
	claim, result := encodeClaim(&l, someTime), encodeResult(l, res, someTime)
	for name, run := range map[string]func(){
		"write a claim":  func() { encodeClaim(&l, someTime) },
		"write a result": func() { encodeResult(l, res, someTime) },
		"read a claim":   func() { _, _ = decode(claim) },
		"read a result":  func() { _, _ = decode(result) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
			if strings.HasSuffix(name, "claim") {
				b.ReportMetric(float64(len(claim)), "bytes")
			} else {
				b.ReportMetric(float64(len(result)), "bytes")
			}
		})
	}
}
