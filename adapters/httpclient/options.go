package httpclient

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// The defaults that New starts from.
const (
	DefaultHeader          = "Idempotency-Key"
	DefaultMaxAttempts     = 8
	DefaultMaxTime         = 2 * time.Minute
	DefaultAttemptTimeout  = 30 * time.Second
	DefaultBackoff         = 200 * time.Millisecond
	DefaultMaxBackoff      = 30 * time.Second
	DefaultMaxBufferedBody = 1 << 20
)

// Option changes a Transport's defaults.
type Option func(*Transport) error

// Header names the header that carries the key, for providers that call it
// otherwise. Default Idempotency-Key.
func Header(name string) Option {
	return func(t *Transport) error {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("httpclient: Header is %q: give a header name, such as Idempotency-Key", name)
		}
		t.header = name
		return nil
	}
}

// Methods names the methods whose calls get a key. Default POST and PATCH; none
// at all leaves keys to the caller.
func Methods(methods ...string) Option {
	return func(t *Transport) error {
		for _, method := range methods {
			if !httpguts.ValidHeaderFieldName(method) || method != strings.ToUpper(method) {
				return fmt.Errorf("httpclient: Methods has %q: give methods in capitals, such as POST", method)
			}
		}
		t.methods = slices.Clone(methods)
		return nil
	}
}

// MaxAttempts bounds how often a call is sent, the first time included. Default 8;
// 1 gives keys and repeats nothing.
func MaxAttempts(n int) Option {
	return func(t *Transport) error {
		if n < 1 {
			return fmt.Errorf("httpclient: MaxAttempts is %d: give 1 or more", n)
		}
		t.maxAttempts = n
		return nil
	}
}

// MaxTime bounds a call until its answer is there, all attempts and waits
// together. Default 2 minutes. Reading a long or streamed answer is not part of
// it. A deadline of the request's context that comes earlier goes first.
func MaxTime(d time.Duration) Option {
	return positive("MaxTime", d, func(t *Transport) { t.maxTime = d })
}

// AttemptTimeout bounds one attempt until its answer is there; after it the call
// is repeated. Default 30 seconds.
func AttemptTimeout(d time.Duration) Option {
	return positive("AttemptTimeout", d, func(t *Transport) { t.attemptTimeout = d })
}

func positive(name string, d time.Duration, set func(*Transport)) Option {
	return func(t *Transport) error {
		if d <= 0 {
			return fmt.Errorf("httpclient: %s is %v: give more than zero", name, d)
		}
		set(t)
		return nil
	}
}

// Backoff sets the wait after the first attempt, without its jitter, and the
// longest wait of all, with it. Default 200 milliseconds and 30 seconds.
func Backoff(base, most time.Duration) Option {
	return func(t *Transport) error {
		if base <= 0 || most < base {
			return fmt.Errorf("httpclient: Backoff is %v and %v: give a first wait above zero, and a longest one that is not shorter", base, most)
		}
		t.backoff, t.maxBackoff = base, most
		return nil
	}
}

// MaxBufferedBody bounds, in bytes, what is read into memory of a request body
// that has no GetBody, so that it can be sent again. A longer one is streamed and
// sent once. Default 1 MiB; 0 buffers nothing, and math.MaxInt64 everything.
//
// http.NewRequest sets GetBody for the bodies of strings.Reader, bytes.Reader and
// bytes.Buffer: those are never buffered, however long.
func MaxBufferedBody(bytes int64) Option {
	return func(t *Transport) error {
		if bytes < 0 {
			return fmt.Errorf("httpclient: MaxBufferedBody is %d: give 0 or more bytes", bytes)
		}
		t.maxBufferedBody = bytes
		return nil
	}
}

// RepeatIf asks decide about every response, before the rules of this package: for
// providers that mark responses in their own way. Where known is false, these rules
// apply. Where it is true, again alone counts, whatever the status is. It is not
// asked when there can be no other attempt. Default none.
//
//	httpclient.RepeatIf(func(r *http.Response) (again, known bool) {
//		again, err := strconv.ParseBool(r.Header.Get("Stripe-Should-Retry"))
//		return again, err == nil
//	})
//
// The function may read the body, of which it sees the first 64 KiB; the caller
// gets all of it in any case. Reading a stream waits for it. The function must not
// change the response. It is called by many calls at once.
func RepeatIf(decide func(*http.Response) (again, known bool)) Option {
	return func(t *Transport) error {
		if decide == nil {
			return errors.New("httpclient: RepeatIf is given nil: give a function, or leave the option out")
		}
		t.repeatIf = decide
		return nil
	}
}

// OnRetry is told before every wait for another attempt: for logs and metrics. It
// is called on the goroutine of the call, by many calls at once, and must not
// block. Default none.
func OnRetry(tell func(Retry)) Option {
	return func(t *Transport) error {
		if tell == nil {
			return errors.New("httpclient: OnRetry is given nil: give a function, or leave the option out")
		}
		t.onRetry = tell
		return nil
	}
}

// Retry is an attempt that failed and is going to be repeated.
type Retry struct {
	// Request is the caller's, without the key: it must not be changed, and its
	// body must be left alone.
	Request *http.Request
	// Key is what the attempts carry, and empty when they carry none.
	Key string
	// Attempts is how often the request was sent so far.
	Attempts int
	// Status is the answer's; 0 when there was none.
	Status int
	// Err is the network error; nil when there was an answer.
	Err error
	// Wait is how long it waits before the next attempt.
	Wait time.Duration
}
