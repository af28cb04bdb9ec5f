// Package cause makes errors with constant texts, which a log may show.
package cause

// Error is an error whose text never quotes a request.
type Error struct{ text string }

// New returns an error that equals no other error, as errors.New does.
func New(text string) error { return &Error{text} }

func (e *Error) Error() string { return e.text }
