package idemmcp

import (
	"testing"
	"time"
)

// A member of another type does not hide the others.
func TestRetryAfterIn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		`{"retry_after":2}`:                                2 * time.Second,
		`{"retry_after":2,"adcp_error":"RATE_LIMITED"}`:    2 * time.Second,
		`{"retry_after":2,"errors":["busy"]}`:              2 * time.Second,
		`{"adcp_error":{"retry_after":3},"errors":[]}`:     3 * time.Second,
		`{"errors":[{"retry_after":4},{"retry_after":5}]}`: 4 * time.Second,
		`{"errors":[{"details":{"retry_after":6}}]}`:       6 * time.Second,
		`{"retry_after":"soon"}`:                           0,
		`{"retry_after":1e9}`:                              time.Hour,
		`{"retry_after":-1}`:                               0,
		`"busy"`:                                           0,
		`{"retry_after":2`:                                 0,
	} {
		if got := retryAfterIn([]byte(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
