package httpclient

import (
	"net/http"
	"slices"
	"time"
)

// Transport gives calls a key and repeats them: see the package comment. Make it
// with New; the zero Transport is not valid. It is safe for concurrent use, and
// keeps nothing from one call to the next.
type Transport struct {
	next            http.RoundTripper
	countsResends   bool // next may send a request again without saying so
	header          string
	methods         []string
	maxAttempts     int
	maxTime         time.Duration
	attemptTimeout  time.Duration
	backoff         time.Duration
	maxBackoff      time.Duration
	maxBufferedBody int64
	onRetry         func(Retry)
	repeatIf        func(*http.Response) (again, known bool)
}

var _ http.RoundTripper = (*Transport)(nil)

// New returns a Transport that sends its attempts through next, which must be safe
// for concurrent use; nil is http.DefaultTransport. An option that makes no sense
// is an error that names it and its value.
func New(next http.RoundTripper, opts ...Option) (*Transport, error) {
	if next == nil {
		next = http.DefaultTransport
	}
	_, isTransport := next.(*http.Transport)
	t := &Transport{
		next: next, countsResends: isTransport,
		header: DefaultHeader, methods: []string{http.MethodPost, http.MethodPatch},
		maxAttempts: DefaultMaxAttempts, maxTime: DefaultMaxTime, attemptTimeout: DefaultAttemptTimeout,
		backoff: DefaultBackoff, maxBackoff: DefaultMaxBackoff, maxBufferedBody: DefaultMaxBufferedBody,
		onRetry:  func(Retry) {},
		repeatIf: func(*http.Response) (again, known bool) { return false, false },
	}
	for _, opt := range opts {
		if err := opt(t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// RoundTrip sends the request, under one key, until it is answered or given up.
// It returns the last answer, or an *AttemptsError. As http.RoundTripper asks, it
// does not change the request, and its body is closed in any case. The request's
// context ends attempts and waits; http.Client.Timeout does so too, for the whole
// call.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	key, repeatable := t.keyFor(request)
	if !repeatable {
		return t.next.RoundTrip(request)
	}
	if err := check(request); err != nil {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, &AttemptsError{Err: err}
	}
	return t.newCall(request, key).do()
}

// CloseIdleConnections forwards http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// keyFor returns the key that all attempts carry, and whether there may be more
// than one attempt. The key is empty when the request needs none.
func (t *Transport) keyFor(request *http.Request) (key string, repeatable bool) {
	if !isPlainHTTP(request) {
		return "", false
	}
	if key := t.givenKey(request); key != "" {
		return key, true
	}
	if slices.Contains(t.methods, request.Method) {
		return newKey(request), true
	}
	return "", isIdempotent(request.Method)
}

// isPlainHTTP reports whether the request is one that this package understands.
// Other schemes are the next RoundTripper's business. After an Upgrade the
// connection belongs to the caller.
func isPlainHTTP(request *http.Request) bool {
	return request.URL != nil && request.URL.Host != "" &&
		(request.URL.Scheme == "http" || request.URL.Scheme == "https") &&
		request.Header.Get("Upgrade") == ""
}

// isIdempotent follows RFC 9110, section 9.2.2; net/http takes "" for GET.
func isIdempotent(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}
