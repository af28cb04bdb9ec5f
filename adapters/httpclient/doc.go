// Package httpclient is the other side of the guard: an [http.RoundTripper] that
// gives a call an Idempotency-Key, and repeats the call under that one key until
// it is answered.
//
//	transport, err := httpclient.New(http.DefaultTransport)
//	client := &http.Client{Transport: transport}
//	response, err := client.Post(url, "application/json", body) // one key, as many attempts as it takes
//
// # Which calls
//
// POST and PATCH get a key: a random UUID of version 4, because version 7 tells
// the receiver when it was made. A key that the caller has set is kept, whatever
// the method; an empty value is no key. Calls with a key are repeated, and so are calls whose method is
// idempotent by RFC 9110, section 9.2.2: GET, HEAD, OPTIONS, TRACE, PUT, DELETE.
// Everything else, an Upgrade, and every URL that is not http or https, passes
// straight through.
//
// # Which responses
//
//	429, 500, 502, 503, 504   repeated
//	425                       repeated (RFC 8470, section 5.2)
//	409 with Retry-After      repeated: the first request is in progress
//	409 otherwise             repeated if its application/problem+json says "code":"in_progress"
//	every other status        not repeated: a 422 says that the key was used with another payload
//
// [RepeatIf] is asked before this table. When the attempts or the time run out,
// the caller gets the last response as it came, or an [AttemptsError] around the
// last network error.
//
// A call is repeated after a network error too, but not after one that comes back
// each time: a certificate that one side refuses, a server without TLS behind an
// https URL. A request that cannot be written as HTTP (its method, a header, its
// URI) is refused before the first attempt.
//
// Answers that may be repeated, and those whose length is announced, are read
// before they are handed over when they have at most 64 KiB. So a connection that
// breaks in the middle of an answer is a network error like any other, and every
// connection is free again before the next attempt. A longer answer, and one that
// streams, is the caller's as soon as its header is there; who finds it cut can
// send the call again with the key in Response.Request.Header.
//
// # How long between attempts
//
// Before attempt n+1 it waits
//
//	min(max(base*2^(n-1), Retry-After) + jitter, 30s)
//
// with a jitter from 0 to base*2^(n-1): clients that failed together do not come
// back together, and none comes back before it was asked to, up to those 30
// seconds. Retry-After is read as seconds and as a date, which counts from the
// answer's own Date, so that clocks need not agree. A wait that the request's
// context, or MaxTime, would cut short is not begun.
//
// # Within a guarded handler
//
// A call whose context belongs to a guarded request of package core gets no random
// key, but [core.DeriveKey]'s for "METHOD host/path": when the outer request is
// repeated, by its client or after a crash, its handler makes the same call with the same key
// and the call happens once. Calls to one URL within one outer request must
// therefore be told apart by name, or the second is taken for a repetition of
// the first:
//
//	request.WithContext(httpclient.WithCall(ctx, "charge-2"))
//
// The name must be the same in every run of the handler: an order line's number,
// not a counter that goroutines share. The query is not part of what is derived
// from, since it may carry a signature or a time.
//
// # What it does not do
//
// It cannot make a server idempotent: one that ignores the key does what it is
// asked as often as it is asked. Calling [http.Client.Do] again after it failed is a
// new call, unless the request carries the caller's own key.
//
// # Redirects
//
// A redirect has its own attempts. It carries the key of the request before it if
// it repeats that request's method and body, as 307 and 308 do: the response to the
// first one may have been lost after its work was done. A redirect that changes
// either of them (303, and 301 or 302 of a POST) is another operation and carries no
// key of the first, not even the caller's own. A key that CheckRedirect sets is kept.
//
// # Repetitions by net/http
//
// net/http repeats a request that has an Idempotency-Key by itself when a kept
// connection breaks, without a pause and without saying so. Here it cannot: its
// attempts have no GetBody. Requests without a body, which it could repeat all
// the same, are counted when the next RoundTripper is an *http.Transport: they use
// up attempts like ours, and at most one more is sent than MaxAttempts says.
package httpclient
