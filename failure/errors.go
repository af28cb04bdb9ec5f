package failure

import "errors"

// Retryable wraps err to release the key, so that a retry runs again. Use it when
// no side effect has happened yet. Retryable returns nil for a nil err. errors.Is
// and errors.As find the wrapped err.
//
// The engine reads an error that a function of core.Do, a procedure of an RPC or a tool returns,
// and an error given to gin's c.Error(err). In other handlers use MarkRetryable.
func Retryable(err error) error {
	if err == nil {
		return nil
	}
	return &retryableError{err}
}

// IsRetryable reports whether err, or an error that it wraps, was made by
// Retryable.
func IsRetryable(err error) bool {
	_, marked := errors.AsType[*retryableError](err)
	return marked
}

type retryableError struct{ error }

func (e *retryableError) Unwrap() error { return e.error }

// Uncertain wraps err to leave the key abandoned: the policy's OnAbandoned decides
// about the next request. Use it when the side effect may or may not have happened,
// for example after a provider's time-out. Uncertain returns nil for a nil err.
// errors.Is and errors.As find the wrapped err.
//
// The engine reads the same errors as for Retryable. In other handlers use
// MarkUncertain.
func Uncertain(err error) error {
	if err == nil {
		return nil
	}
	return &uncertainError{err}
}

// IsUncertain reports whether err, or an error that it wraps, was made by Uncertain.
func IsUncertain(err error) bool {
	_, marked := errors.AsType[*uncertainError](err)
	return marked
}

type uncertainError struct{ error }

func (e *uncertainError) Unwrap() error { return e.error }

// Permanent wraps err to store the error under its key: every retry of core.Do
// then gets the same error, as an HTTP client gets a stored 422. Permanent returns
// nil for a nil err. errors.Is and errors.As find the wrapped err.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err, or an error that it wraps, was made by
// Permanent.
func IsPermanent(err error) bool {
	_, ok := errors.AsType[*permanentError](err)
	return ok
}

type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }
