package httpclient

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/oncekey/oncekey/adapters/internal/outgoing"
)

// The defaults that New starts from.
const (
	DefaultHeader          = "Idempotency-Key"
	DefaultMaxAttempts     = outgoing.DefaultMaxAttempts    // 8
	DefaultMaxTime         = outgoing.DefaultMaxTime        // 2 minutes
	DefaultAttemptTimeout  = outgoing.DefaultAttemptTimeout // 30 seconds
	DefaultBackoff         = outgoing.DefaultBackoff        // 200 milliseconds
	DefaultMaxBackoff      = outgoing.DefaultMaxBackoff     // 30 seconds
	DefaultMaxBufferedBody = 1 << 20
)

// Option changes a Transport's defaults.
type Option func(*Transport) error

// Header names the header that carries the key, for providers with another header.
// Default Idempotency-Key.
func Header(name string) Option {
	return func(t *Transport) error {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("httpclient: Header is %q: give a header name, such as Idempotency-Key", name)
		}
		t.header = name
		return nil
	}
}

// Methods names the methods whose calls get a key. An empty list leaves keys to the
// caller. Default POST and PATCH.
func Methods(methods ...string) Option {
	return func(t *Transport) error {
		for _, method := range methods {
			if !httpguts.ValidHeaderFieldName(method) || method != strings.ToUpper(method) || method == "*" {
				return fmt.Errorf("httpclient: Methods has %q: give methods in capitals, such as POST", method)
			}
		}
		t.methods = slices.Clone(methods)
		return nil
	}
}

// MaxAttempts bounds the attempts of a call, including the first. With 1, calls get keys
// and are never repeated. Default 8.
func MaxAttempts(n int) Option {
	return positive("MaxAttempts", n, func(t *Transport) { t.limits.MaxAttempts = n })
}

// MaxTime bounds the time until RoundTrip returns, with all attempts and waits. An
// earlier deadline of the request's context takes precedence. The time for reading a long
// or streaming response does not count. Default 2 minutes.
func MaxTime(d time.Duration) Option {
	return positive("MaxTime", d, func(t *Transport) { t.limits.MaxTime = d })
}

// AttemptTimeout bounds the time until one attempt has a response. The call is then
// repeated. Default 30 seconds.
func AttemptTimeout(d time.Duration) Option {
	return positive("AttemptTimeout", d, func(t *Transport) { t.limits.AttemptTimeout = d })
}

func positive[T int | time.Duration](name string, value T, set func(*Transport)) Option {
	return func(t *Transport) error {
		if value <= 0 {
			return fmt.Errorf("httpclient: %s is %v: give more than zero", name, value)
		}
		set(t)
		return nil
	}
}

// Backoff sets the wait after the first attempt, without jitter, and the longest wait,
// with jitter. Default 200 milliseconds and 30 seconds.
func Backoff(base, most time.Duration) Option {
	return func(t *Transport) error {
		if base <= 0 || most < base {
			return fmt.Errorf("httpclient: Backoff is %v and %v: give a first wait above zero, and a longest wait that is not shorter", base, most)
		}
		t.limits.Backoff, t.limits.MaxBackoff = base, most
		return nil
	}
}

// MaxBufferedBody bounds, in bytes, a request body that is read into memory for other
// attempts, if the request has no GetBody. A longer body is streamed and sent once. 0
// turns buffering off, and math.MaxInt64 buffers every body. Default 1 MiB.
//
// http.NewRequest sets GetBody for a strings.Reader, bytes.Reader and bytes.Buffer: such
// bodies are never buffered, at any length.
func MaxBufferedBody(bytes int64) Option {
	return func(t *Transport) error {
		if bytes < 0 {
			return fmt.Errorf("httpclient: MaxBufferedBody is %d: give 0 or more bytes", bytes)
		}
		t.maxBufferedBody = bytes
		return nil
	}
}

// RepeatIf calls decide for every response, before the rules of this package. Use it for
// providers that mark responses in their own way. If known is true, again decides for any
// status; otherwise the rules of this package apply. decide is not called when no further
// attempt is possible. Default none.
//
//	httpclient.RepeatIf(func(r *http.Response) (again, known bool) {
//		again, err := strconv.ParseBool(r.Header.Get("Stripe-Should-Retry"))
//		return again, err == nil
//	})
//
// decide may read the first 64 KiB of the body; the caller still gets the whole body.
// Reading a streaming body blocks until data arrives. decide must not change the
// response, and must be safe for concurrent use.
func RepeatIf(decide func(*http.Response) (again, known bool)) Option {
	return func(t *Transport) error {
		if decide == nil {
			return errors.New("httpclient: RepeatIf is given nil: give a function, or leave the option out")
		}
		t.repeatIf = decide
		return nil
	}
}

// OnRetry calls observe before every wait for another attempt. Use it for logs and
// metrics. observe runs on the goroutine of the call, must be safe for concurrent use,
// and must not block. Default none.
func OnRetry(observe func(Retry)) Option {
	return func(t *Transport) error {
		if observe == nil {
			return errors.New("httpclient: OnRetry is given nil: give a function, or leave the option out")
		}
		t.onRetry = observe
		return nil
	}
}

// Retry describes a failed attempt that will be repeated.
type Retry struct {
	// Request is the caller's request, without the key. Do not change the request or
	// read its body.
	Request *http.Request
	// Key is the key of all attempts, or empty.
	Key string
	// Attempts is the number of attempts so far.
	Attempts int
	// Status is the response's status, or 0 without a response.
	Status int
	// Err is the network error, or nil with a response.
	Err error
	// Wait is the time until the next attempt.
	Wait time.Duration
}
