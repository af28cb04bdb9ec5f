package fingerprint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 40: every byte of a request counts, and equal requests have equal digests.
func TestDigestCountsEveryByte(t *testing.T) {
	t.Parallel()
	for _, size := range []int{3, 4 << 10} { // less than a block of SHA-256, and many
		body := strings.Repeat("a", size)
		whole := fingerprint.Request{Method: "POST", Path: "/p", RawQuery: "q=1", ContentType: "application/json", Body: []byte(body)}
		again := whole
		again.Body = []byte(body)
		testkit.Equal(t, fingerprint.Digest(again), fingerprint.Digest(whole), "equal requests have different digests")
		others := []fingerprint.Request{whole, whole, whole, whole, whole, whole}
		others[0].Method = "PATCH"
		others[1].Path = "/q"
		others[2].RawQuery = "q=2"
		others[3].ContentType = "application/json;"
		others[4].Body = []byte(body + " ")
		others[5].Path, others[5].RawQuery = "/pq", "=1" // the same bytes, framed otherwise
		for n, other := range others {
			if fingerprint.Digest(other) == fingerprint.Digest(whole) {
				t.Errorf("request %d has the digest of another one: %+v", n, other)
			}
		}
	}
}

// Stored digests outlive a deployment.
func TestDigestStaysEqual(t *testing.T) {
	t.Parallel()
	request := fingerprint.Request{Method: "POST", Path: "/payments", RawQuery: "a=1", ContentType: "application/json", Body: []byte(strings.Repeat(`{"n":1}`, 300))}
	testkit.Equal(t, fmt.Sprintf("%x", fingerprint.Digest(request)), "6ee17769076772e80f74445c5e9dcdb6", "the digest")
	request.Headers = []fingerprint.HeaderField{{Name: "X-Tenant", Value: "t1"}}
	testkit.Equal(t, fmt.Sprintf("%x", fingerprint.Digest(request)), "6fde10f2d1eea324faf0097f5cc5d46e", "with a header field")
	request.Headers, request.Body = nil, []byte(`{"n":1}`)
	testkit.Equal(t, fmt.Sprintf("%x", fingerprint.Digest(request)), "8546156df67be8131410e02aca3a51fc", "a short body")
}

//nolint:paralleltest // AllocsPerRun counts every goroutine's
func TestDigestDoesNotAllocate(t *testing.T) {
	request := fingerprint.Request{Method: "POST", Path: "/payments", Body: make([]byte, 100_000)}
	if n := testing.AllocsPerRun(100, func() { _ = fingerprint.Digest(request) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
