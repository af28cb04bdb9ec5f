package failure

import "errors"

// Retryable wraps err to say that nothing has happened yet and the same key may
// be used again. It returns nil for a nil err. errors.Is and errors.As see
// through it.
//
// An error reaches the engine where an adapter has errors to read: gin's
// c.Error(err). Elsewhere use MarkRetryable.
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

type retryableError struct{ err error }

func (e *retryableError) Error() string { return e.err.Error() }
func (e *retryableError) Unwrap() error { return e.err }
