// Package httpclient is the client side of the guard: an [http.RoundTripper] that
// gives each call an Idempotency-Key, and repeats the call under the same key until a
// final response arrives.
//
//	transport, err := httpclient.New(http.DefaultTransport)
//	client := &http.Client{Transport: transport}
//	response, err := client.Post(url, "application/json", body) // one key for all attempts
//
// # Which calls
//
// POST and PATCH get a key: a UUID of version 7, whose time lets a server refuse late
// attempts (policy.KeyAge). A key from the caller is kept for any method; an empty value is not
// a key. The package repeats calls with a key, and calls whose method is idempotent by
// RFC 9110, section 9.2.2: GET, HEAD, OPTIONS, TRACE, PUT, DELETE. All other calls, an
// Upgrade, and every URL that is not http or https, pass straight through.
//
// # Which responses
//
//	429, 500, 502, 503, 504   repeated, and an unknown 5xx
//	408                       repeated (RFC 9110, section 15.5.9)
//	425                       repeated (RFC 8470, section 5.2)
//	409 with Retry-After      repeated: the first request is in progress
//	409 otherwise             repeated if its application/problem+json has "code":"in_progress"
//	every other status        not repeated: a 422 means that the key was used with another payload
//
// A response with X-Idempotent-Replay: true, or with Idempotent-Replayed: true as Stripe's, is the
// stored one, and not repeated: another attempt gets it again.
//
// [RepeatIf] decides before these rules. When the attempts or the time run out, the
// caller gets the last response unchanged, or an [AttemptsError] around the last network
// error.
//
// A call is repeated after a network error too, except after permanent errors: a
// certificate that one side refuses, a server without TLS behind an https URL. A request
// that cannot be written as HTTP (its method, a header, its URI) is refused before the
// first attempt.
//
// RoundTrip reads a response of at most 64 KiB before it returns, if the status can
// cause another attempt or if the length is announced. A connection that breaks in the
// middle of such a response is therefore a network error, and every connection is idle
// before the next attempt. A longer or streaming response is returned after its header.
// If such a response is cut off, the caller can send the call again with the key in
// Response.Request.Header.
//
// # Waits between attempts
//
// Before attempt n+1 the call waits
//
//	min(max(base*2^(n-1), Retry-After) + jitter, 30s)
//
// with a jitter from 0 to base*2^(n-1). The jitter spreads clients that failed together,
// and no client retries before Retry-After, up to the 30 seconds. Retry-After is read as
// seconds or as a date. A date counts from the response's own Date, so that clocks need
// not agree. If the request's context or MaxTime would end during a wait, the call ends
// at once.
//
// # Within a guarded handler
//
// If a call's context belongs to a guarded request of package core, the key is not
// random but a UUID of version 8 from core.DeriveKey for "METHOD host/path". When the outer request is
// repeated, by its client or after a crash, the handler makes the same call with the
// same key, and the call happens once. Such a key has no time. If the outer key has one, it
// is sent in the header Repeatability-First-Sent, so that policy.KeyAge works there too;
// if not, a route with a KeyAge refuses the call. Calls to one URL within one outer request
// therefore need names. Without names the receiver takes the second call for a
// repetition of the first:
//
//	request.WithContext(httpclient.WithCall(ctx, "charge-2"))
//
// The name must be the same in every run of the handler: an order line's number,
// not a counter that goroutines share. The query is not part of the derivation, because
// a query may carry a signature or a time.
//
// # Limits
//
// The package cannot make a server idempotent: a server that ignores the key executes
// every attempt. Another [http.Client.Do] after a failure is a new call, unless the
// request carries the caller's own key. So is each attempt of a library that repeats
// requests around the Transport, such as resty: turn its repetitions off.
//
// # Redirects
//
// A redirect has its own attempts. If it repeats the method and body of the previous
// request, as 307 and 308 do, it carries the same key, because the first server may have
// done the work and lost the response. A redirect that changes the method or the body
// (303, and 301 or 302 of a POST) is another operation and carries no earlier key, not
// even the caller's own. A key that CheckRedirect sets is kept.
//
// # Repetitions by net/http
//
// net/http itself repeats a request with an Idempotency-Key when a kept connection
// breaks, at once and unreported. This package prevents such repetitions by attempts
// without GetBody. net/http can still repeat requests without a body. If the next
// RoundTripper is an *http.Transport, such repetitions count as attempts, and at most one
// more than MaxAttempts is sent.
package httpclient
