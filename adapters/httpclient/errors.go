package httpclient

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// AttemptsError reports that a repeatable call ended without a response. RoundTrip
// returns it, and [http.Client] wraps it in a *url.Error: use errors.As.
type AttemptsError struct {
	// Attempts is the number of attempts. It is 0 when the request's body could not be
	// read or the request cannot be written as HTTP.
	Attempts int
	// Elapsed is the time from the beginning to the end of the call.
	Elapsed time.Duration
	// Err is the last attempt's error, or the error of the context that ended the wait
	// for the next attempt.
	Err error
}

// Error names the number of attempts, the elapsed time and the last error.
func (e *AttemptsError) Error() string {
	attempts := "attempts"
	if e.Attempts == 1 {
		attempts = "attempt"
	}
	return fmt.Sprintf("httpclient: no response after %d %s in %v: %v", e.Attempts, attempts, e.Elapsed.Round(time.Millisecond), e.Err)
}

// Unwrap returns Err.
func (e *AttemptsError) Unwrap() error { return e.Err }

// Timeout reports whether Err is a timeout, like net.Error. *url.Error calls it.
func (e *AttemptsError) Timeout() bool {
	timeout, is := errors.AsType[interface {
		error
		Timeout() bool
	}](e.Err)
	return is && timeout.Timeout()
}

// errSentTooOften ends an attempt when net/http would exceed the allowed attempts.
var errSentTooOften = errors.New("the connections broke, and repetitions by net/http have used up the attempts")

// errBodyTooSlow is the error of a request's body that takes longer than MaxTime.
var errBodyTooSlow = fmt.Errorf("not read within MaxTime: %w", context.DeadlineExceeded)

// bodyError reports that the request's body cannot be read, or not again.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "the request's body: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }
