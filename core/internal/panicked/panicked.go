// Package panicked turns the panics of a program's own code into errors.
package panicked

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/oncekey/oncekey/core/internal/cause"
)

// Error returns an error for a recovered panic of the named code, or nil without a panic.
// The error names the file and line, because the stack is lost before the error is
// logged. For a value that is no runtime error, the error names only the type: the text
// could contain a request's data.
func Error(code string, recovered any) error {
	if recovered == nil {
		return nil
	}
	text := fmt.Sprintf("a value of type %T", recovered)
	if runtimeError, ok := recovered.(runtime.Error); ok {
		text = runtimeError.Error()
	}
	return cause.New(fmt.Sprintf("oncekey: the %s panicked at %s: %s", code, place(), text))
}

// place returns the file and line that panicked. A deferred function that recovers is
// among the callers.
func place() string {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers[:])])
	for panicking := false; ; {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			panicking = true
		case panicking && !strings.HasPrefix(frame.Function, "runtime."):
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}

// ToError sets the error of a function whose deferred call it is, if the function panics.
func ToError(code string, err *error) {
	if panicked := Error(code, recover()); panicked != nil {
		*err = panicked
	}
}

// Within makes a call on a goroutine, and returns its result, or its panic as an error, or
// the error of ctx as soon as ctx ends. The call then goes on without its caller, so it
// may change nothing that its caller uses.
func Within[R any](ctx context.Context, code string, call func() (R, error)) (result R, err error) {
	type outcome struct {
		result R
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		growStack()
		var got outcome
		got.err = Call(code, func() (err error) {
			got.result, err = call()
			return err
		})
		done <- got
	}()
	select {
	case got := <-done:
		return got.result, got.err
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// growStack gives a goroutine the stack that a call of a database's client needs, at once. Grown in
// the middle of the call, by a copy of all frames each time, it took a tenth of the client's
// processor time.
//
//go:noinline
func growStack() {
	var frame [6 << 10]byte
	runtime.KeepAlive(&frame)
}

// Call returns the error of a call, or its panic as an error.
func Call(code string, call func() error) (err error) {
	defer ToError(code, &err)
	return call()
}
