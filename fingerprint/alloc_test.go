//go:build !race

package fingerprint_test

import (
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
)

// The string is the only thing that Of allocates in the usual case. The race
// detector drops pooled values at random, which is why this test is not for it.
func TestAllocations(t *testing.T) { //nolint:paralleltest // others would allocate in between
	x := exclude(t, "timestamp", "meta.trace.id", "items.*.nonce")
	for name, test := range map[string]struct {
		request   fingerprint.Request
		exclusion *fingerprint.Exclusion
	}{
		"JSON":               {fingerprint.Request{ContentType: "application/json", Body: paymentOf(300)}, nil},
		"JSON with charset":  {fingerprint.Request{ContentType: "application/json; charset=utf-8", Body: paymentOf(300)}, nil},
		"JSON and exclusion": {fingerprint.Request{ContentType: "application/json", Body: paymentOf(300)}, x},
		"query":              {fingerprint.Request{RawQuery: "b=2&a=%31&timestamp=3"}, x},
		"form":               {fingerprint.Request{ContentType: "application/x-www-form-urlencoded", Body: []byte("b=2&a=%31")}, x},
	} {
		t.Run(name, func(t *testing.T) {
			if got := testing.AllocsPerRun(200, func() { fingerprint.Of(test.request, test.exclusion) }); got > 1 {
				t.Errorf("%v allocations, want 1", got)
			}
		})
	}
}
