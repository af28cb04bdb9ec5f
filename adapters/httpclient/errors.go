package httpclient

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// AttemptsError is what RoundTrip returns when a call that may be repeated ends
// without an answer. [http.Client] wraps it in a *url.Error: use errors.As.
type AttemptsError struct {
	// Attempts is how often the request was sent, or tried to be; 0 when its own
	// body could not be read, or it cannot be written as HTTP.
	Attempts int
	// Elapsed is the time from the beginning of the call until it was given up.
	Elapsed time.Duration
	// Err is the last attempt's error, or says which context ended the wait for
	// the next attempt.
	Err error
}

// Error names the number of attempts, the time they took, and the last error.
func (e *AttemptsError) Error() string {
	attempts := "attempts"
	if e.Attempts == 1 {
		attempts = "attempt"
	}
	return fmt.Sprintf("httpclient: no answer after %d %s in %v: %v", e.Attempts, attempts, e.Elapsed.Round(time.Millisecond), e.Err)
}

// Unwrap returns Err.
func (e *AttemptsError) Unwrap() error { return e.Err }

// Timeout reports whether Err is a timeout, as net.Error has it; *url.Error asks.
func (e *AttemptsError) Timeout() bool {
	timeout, is := errors.AsType[interface {
		error
		Timeout() bool
	}](e.Err)
	return is && timeout.Timeout()
}

// errSentTooOften ends an attempt that net/http would send once more than allowed.
var errSentTooOften = errors.New("the connections broke, and net/http has used up the attempts by itself")

// attemptTimeout is why an attempt was cut off.
func attemptTimeout(after time.Duration) error {
	return fmt.Errorf("no answer within %v: %w", after.Round(time.Millisecond), context.DeadlineExceeded)
}

// bodyError says that the request's body cannot be had again.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "the request's body: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }
