package core

import (
	"net/http"
	"testing"
)

// Case 72: each code says by Retry-After whether another try can mend it. A 409
// does so if a handler runs, a 503 always, and nothing else.
func TestOnlyTemporaryProblemsAreRetried(t *testing.T) {
	t.Parallel()
	for code, kind := range problemKinds {
		temporary := code == CodeInProgress || kind.status == http.StatusServiceUnavailable
		if p := NewProblem(code, ""); p.RetryAfter > 0 != temporary {
			t.Errorf("%s has RetryAfter %v, want one: %v", code, p.RetryAfter, temporary)
		}
	}
}
