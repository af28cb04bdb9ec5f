package core

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"unsafe"

	"github.com/oncekey/oncekey/core/event"
)

// The state of a run is the largest allocation of a first-time request. Above this size,
// the runtime takes 256 bytes more for it.
func TestExecutionFits(t *testing.T) {
	t.Parallel()
	const class, header = 1792, 8
	if size := unsafe.Sizeof(execution{}); size > class-header {
		t.Errorf("an execution has %d bytes, want at most %d", size, class-header)
	}
}

// Every idempotency key, scope and route has a sketch key of its own. It has no bytes
// in common with the hash of the idempotency key that records and events show.
func TestSketchKey(t *testing.T) {
	t.Parallel()
	seen := map[[16]byte]Request{}
	for _, r := range []Request{
		{Scope: "alice", Method: http.MethodPost, Path: "/payments", Key: "k1"},
		{Scope: "alice", Method: http.MethodPost, Path: "/payments", Key: "k2"},
		{Scope: "bob", Method: http.MethodPost, Path: "/payments", Key: "k1"},
		{Scope: "alice", Method: http.MethodPost, Path: "/orders", Key: "k1"},
		{Scope: "alice", Method: http.MethodPut, Path: "/payments", Key: "k1"},
	} {
		c := claimant{identity: &identity{request: r, digest: digestOf("", &r)}}
		key := c.sketchKey()
		if other, ok := seen[key]; ok {
			t.Errorf("%+v and %+v have one sketch key", r, other)
		}
		seen[key] = r
		secret := key
		for i, b := range c.identity.digest[:len(key)] {
			secret[i] ^= b // a reader of the store knows these bytes
		}
		for from := range len(secret) - 4 {
			if known := event.KeyHash(r.Key); strings.Contains(known, hex.EncodeToString(secret[from:from+4])) {
				t.Errorf("the hash %s shows a part of the secret %x", known, secret)
			}
		}
	}
}
