//go:build !race

package fingerprint_test

import (
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
)

// A reading does not allocate in the usual cases, for a body of any size. The race
// detector drops pooled values at random, so this test does not run with it.
func TestAllocations(t *testing.T) { //nolint:paralleltest // others would allocate in between
	x := exclude(t, "timestamp", "meta.trace.id", "items.*.nonce")
	payment := func(size int) fingerprint.Request { return jsonRequest(string(paymentOf(size))) }
	withCharset := payment(300)
	withCharset.ContentType = "application/json; charset=utf-8"
	for name, test := range map[string]struct {
		request   fingerprint.Request
		exclusion *fingerprint.Exclusion
	}{
		"JSON":               {payment(300), nil},
		"JSON with charset":  {withCharset, nil},
		"JSON and exclusion": {payment(300), x},
		"2 KB of JSON":       {payment(2 << 10), x},
		"64 KB of JSON":      {payment(64 << 10), x},
		"1 MB of JSON":       {payment(1 << 20), x},
		"query":              {fingerprint.Request{RawQuery: "b=2&a=%31&timestamp=3"}, x},
		"form":               {formRequest("b=2&a=%31"), x},
		"no body":            {fingerprint.Request{ContentType: "text/plain"}, x},
		"raw":                {fingerprint.Request{ContentType: "text/plain", Body: []byte("text")}, x},
		"64 KB of raw":       {fingerprint.Request{ContentType: "text/plain", Body: make([]byte, 64<<10)}, x},
		"not JSON":           {jsonRequest("{"), x},
	} {
		t.Run(name, func(t *testing.T) {
			buffer := make([]byte, 0, fingerprint.Size+fingerprint.MaxSketch)
			if got := testing.AllocsPerRun(100, func() {
				reading := fingerprint.Read(test.request, test.exclusion)
				reading.AppendSketch(reading.AppendFingerprint(buffer), sketchKey)
				reading.Close()
			}); got > 0 {
				t.Errorf("Read: %v allocations, want 0", got)
			}
			if got := testing.AllocsPerRun(100, func() {
				reading := fingerprint.ReadForSketch(test.request, test.exclusion, sketchKey)
				reading.AppendSketch(reading.AppendFingerprint(buffer), sketchKey)
				reading.Close()
			}); got > 0 {
				t.Errorf("ReadForSketch: %v allocations, want 0", got)
			}
			if got := testing.AllocsPerRun(100, func() { fingerprint.Of(test.request, test.exclusion) }); got > 1 {
				t.Errorf("Of: %v allocations, want 1 for the result", got)
			}
			sketch := sketchOf(test.request, test.exclusion, sketchKey)
			if got := testing.AllocsPerRun(100, func() { differencesFrom(sketch, test.request, test.exclusion, sketchKey) }); got > 0 {
				t.Errorf("Differences: %v allocations, want 0", got)
			}
		})
	}
}
