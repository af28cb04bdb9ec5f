package serverproc

import (
	"errors"
	"fmt"
)

// ErrMissing is wrapped by the errors of [Program.Try] for servers that are not installed.
var ErrMissing = errors.New("not installed")

// Program acts as the test that owns servers, for a program that is no test. The zero value is ready. Call End before the
// program ends. Its methods must be called by one goroutine.
type Program struct{ Lasting }

// failure ends a call of [Program.Try].
type failure struct{ err error }

// Try calls start, which starts servers for the program, and returns the error with which a test would have ended.
func (p *Program) Try(start func()) (err error) {
	defer func() {
		if ended := recover(); ended != nil {
			failed, ok := ended.(failure)
			if !ok {
				panic(ended)
			}
			err = failed.err
		}
	}()
	start()
	return nil
}

// Fatalf implements testing.TB.
func (p *Program) Fatalf(format string, arguments ...any) {
	panic(failure{fmt.Errorf(format, arguments...)}) //nolint:err113 // of the caller's text
}

// Fatal implements testing.TB.
func (p *Program) Fatal(arguments ...any) { p.Fatalf("%s", fmt.Sprint(arguments...)) }

// Skip implements testing.TB.
func (p *Program) Skip(arguments ...any) {
	panic(failure{fmt.Errorf("%w: %s", ErrMissing, fmt.Sprint(arguments...))})
}
