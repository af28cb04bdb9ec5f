package httpclient

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/oncekey/oncekey/adapters/internal/outgoing"
)

// Transport gives calls a key and repeats calls, as the package comment describes. Make
// it with New: the zero Transport is not valid. A Transport is safe for concurrent use,
// and keeps no state between calls.
type Transport struct {
	next            http.RoundTripper
	countsResends   bool // next is an *http.Transport, which may repeat requests itself
	header          string
	methods         []string
	limits          outgoing.Limits
	maxBufferedBody int64
	onRetry         func(Retry)
	repeatIf        func(*http.Response) (again, known bool)
}

var _ http.RoundTripper = (*Transport)(nil)

// New returns a Transport that sends its attempts through next, which must be safe for
// concurrent use. A nil next means http.DefaultTransport. The error names an invalid
// option and its value.
func New(next http.RoundTripper, opts ...Option) (*Transport, error) {
	if next == nil {
		next = http.DefaultTransport
	}
	_, isTransport := next.(*http.Transport)
	t := &Transport{
		next: next, countsResends: isTransport,
		header: DefaultHeader, methods: []string{http.MethodPost, http.MethodPatch},
		maxBufferedBody: DefaultMaxBufferedBody,
		onRetry:         func(Retry) {},
		repeatIf:        func(*http.Response) (again, known bool) { return false, false },
	}
	t.limits, _ = t.limits.Complete() // the defaults are valid
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("httpclient: option %d of New is nil: leave it out", i+1)
		}
		if err := opt(t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// RoundTrip sends the request under one key and repeats it until a final response, or
// until the attempts or the time run out. It returns the last response or an
// *AttemptsError. RoundTrip does not change the request and always closes its body, as
// http.RoundTripper requires. The request's context ends attempts and waits, and so does
// http.Client.Timeout for the whole call.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	key, firstSent, repeatable := t.keyFor(request)
	if !repeatable {
		return t.next.RoundTrip(request)
	}
	if err := check(request); err != nil {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, &AttemptsError{Err: err}
	}
	return t.newCall(request, key, firstSent).do()
}

// CloseIdleConnections forwards http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// keyFor returns the key of all attempts, or "" if the request needs no key. firstSent is
// the time of a key that this package made and that has none itself, or "". keyFor also
// reports whether the call may be repeated.
func (t *Transport) keyFor(request *http.Request) (key, firstSent string, repeatable bool) {
	if !isPlainHTTP(request) {
		return "", "", false
	}
	if key := t.givenKey(request); key != "" {
		if before := redirectedFrom(request); before != nil {
			firstSent = before.Header.Get(outgoing.FirstSentHeader) // an attempt with the caller's own key ignores it
		}
		return key, firstSent, true
	}
	if slices.Contains(t.methods, request.Method) {
		key, firstSent = outgoing.NewKey(request.Context(), operationOf(request))
		return key, firstSent, true
	}
	return "", "", isIdempotent(request.Method)
}

// isPlainHTTP reports whether this package handles the request. Requests with other
// schemes go to the next RoundTripper unchanged. So does an Upgrade, whose connection then
// belongs to the caller.
func isPlainHTTP(request *http.Request) bool {
	return request.URL != nil && request.URL.Host != "" &&
		(request.URL.Scheme == "http" || request.URL.Scheme == "https") &&
		request.Header.Get("Upgrade") == ""
}

// isIdempotent follows RFC 9110, section 9.2.2. In net/http, "" means GET.
func isIdempotent(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}
