package failure

import "errors"

// Retryable wraps err to say that nothing has happened yet and the same key may
// be used again. It returns nil for a nil err. errors.Is and errors.As see
// through it.
//
// An error reaches the engine where there are errors to read: from the function
// of a core.Do, and by gin's c.Error(err). Elsewhere use MarkRetryable.
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

// Uncertain wraps err to say that the side effect may or may not have happened, such
// as a provider's time-out. The key is left abandoned, and the policy's OnAbandoned
// decides about the next request. It returns nil for a nil err. errors.Is and
// errors.As see through it. Like Retryable, it is for errors that the engine reads;
// elsewhere use MarkUncertain.
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

type uncertainError struct{ err error }

func (e *uncertainError) Error() string { return e.err.Error() }
func (e *uncertainError) Unwrap() error { return e.err }

// Permanent wraps err to say that the answer is no and stays so: a function that
// core.Do ran keeps it under its key, as a handler's 422 is kept, and every retry
// gets it again. It returns nil for a nil err. errors.Is and errors.As see
// through it.
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

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }
