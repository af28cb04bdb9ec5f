// Package cause marks errors whose texts a log may show. It is a package of its own because
// core and core/storage make such errors, core/event recognizes them, and programs must not.
package cause

// Error is an error whose text never quotes a request.
type Error struct{ text string }

// New returns an error that equals no other error, as errors.New does.
func New(text string) error { return &Error{text} }

func (e *Error) Error() string { return e.text }

// StoreError is an error of a store in an event about a handler's result.
type StoreError struct{ error }

// OfStore marks an error as a store's, so that a log shows its text.
func OfStore(err error) error { return &StoreError{err} }

func (e *StoreError) Unwrap() error { return e.error }
