package failure

import "errors"

// Retryable wraps err to release the key, so that a retry runs again. Use it when
// no side effect has happened yet. Retryable returns nil for a nil err. errors.Is
// and errors.As find the wrapped err.
//
// The engine reads an error that a function of core.Do, a procedure of an RPC or a tool returns,
// and an error given to gin's c.Error(err). In other handlers use MarkRetryable.
func Retryable(err error) error { return mark(err, &retryableError{marked{err}}) }

// IsRetryable reports whether err, or an error that it wraps, was made by
// Retryable.
func IsRetryable(err error) bool {
	_, is := errors.AsType[*retryableError](err)
	return is
}

// Uncertain wraps err to leave the key abandoned: the policy's OnAbandoned decides
// about the next request. Use it when the side effect may or may not have happened,
// for example after a provider's time-out. Uncertain returns nil for a nil err.
// errors.Is and errors.As find the wrapped err.
//
// The engine reads the same errors as for Retryable. In other handlers use
// MarkUncertain.
func Uncertain(err error) error { return mark(err, &uncertainError{marked{err}}) }

// IsUncertain reports whether err, or an error that it wraps, was made by Uncertain.
func IsUncertain(err error) bool {
	_, is := errors.AsType[*uncertainError](err)
	return is
}

// Permanent wraps err to store the error under its key: every retry of core.Do
// then gets the same error, as an HTTP client gets a stored 422. Permanent returns
// nil for a nil err. errors.Is and errors.As find the wrapped err.
func Permanent(err error) error { return mark(err, &permanentError{marked{err}}) }

// IsPermanent reports whether Permanent made the outermost mark on err or on the errors
// that it wraps. An error of a guarded core.Do is permanent only if it is stored.
func IsPermanent(err error) bool {
	var outermost interface{ isMarked() }
	_ = errors.As(err, &outermost)
	_, is := outermost.(*permanentError)
	return is
}

type (
	retryableError struct{ marked }
	uncertainError struct{ marked }
	permanentError struct{ marked }

	marked struct{ error }
)

func mark(err, marked error) error {
	if err == nil {
		return nil
	}
	return marked
}

func (m marked) isMarked() {}

func (m marked) Unwrap() error { return m.error }
