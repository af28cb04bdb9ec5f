package endtoend

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// repeating is a proxy that by itself repeats a client's request at one server after another, until a response has a status
// below 500. haproxy with "retry-on all-retryable-errors" and nginx with "non_idempotent http_500" do the same.
type repeating struct {
	*httptest.Server
	targets []string
	sent    atomic.Int32
}

const proxyTries = 4

func newRepeating(t *testing.T, targets ...string) *repeating {
	t.Helper()
	p := &repeating{targets: targets}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *repeating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for range proxyTries {
		target := p.targets[int(p.sent.Add(1))%len(p.targets)]
		if passed := forward(w, r, target, body); passed {
			return
		}
	}
	w.WriteHeader(http.StatusBadGateway)
}

// forward passes a response on, unless the proxy repeats the request after this response.
func forward(w http.ResponseWriter, r *http.Request, target string, body []byte) (passed bool) {
	outgoing, err := http.NewRequestWithContext(r.Context(), r.Method, target+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return false
	}
	outgoing.Header = r.Header.Clone()
	response, err := client.Do(outgoing)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusInternalServerError {
		return false
	}
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body) // the client may have disconnected
	return true
}

// Case 71: a proxy repeats a payment whose handler panics after the charge.
func TestProxyThatRepeatsChargesOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, 30*time.Second, func(t *testing.T, f *fixture) {
		first, second := f.startTwo()
		proxy := newRepeating(t, first.url, second.url)
		pay := payment("tok_crash_after_charge")
		refund := pay
		refund.path = "/refunds"
		for _, r := range []request{pay, refund} {
			proxy.sent.Store(0)
			(&instance{t: t, url: proxy.URL}).send(r).expect(t, want{status: http.StatusBadGateway})
			testkit.Equal(t, proxy.sent.Load(), proxyTries, "requests that the proxy sent")
		}
		if got := f.effects(); len(got) != 2 || got[0].Kind != "charge" || got[1].Kind != "refund" {
			t.Errorf("the ledger has %+v, want one charge and one refund", got)
		}
	})
}
