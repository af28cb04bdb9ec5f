package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/oncekey/oncekey/core/internal/steps"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

// Step calls function and records its result, for all attempts of the guarded request of
// ctx. A later attempt gets the recorded result, and does not call function. Use Step in
// a handler with several side effects: after a crash, the next attempt continues with
// the step that has no result.
//
//	receipt, err := core.Step(ctx, "charge", func(ctx context.Context) (Receipt, error) {
//		return provider.Charge(ctx, core.DeriveKey(ctx, "charge"), order)
//	})
//
// The name identifies the step in the request: at most 100 bytes of UTF-8, each name
// once in a run. The result is recorded as JSON before Step returns, and every attempt
// gets the value decoded from that JSON. All steps of a request together have at most
// the policy's MaxResponseBytes.
//
// An error of function is returned unchanged and is not recorded, so the next attempt
// calls function again. An error wrapped by failure.Permanent is recorded as text, and
// every later attempt gets that text, wrapped by failure.Permanent.
//
// The run becomes uncertain, as by failure.MarkUncertain, in three cases: function
// returned an error wrapped by failure.Uncertain; function panicked, or failed after its
// context had ended; or its result could not be recorded, because the store was
// unreachable, or the result was too large or cannot be encoded. Step then returns an
// error, and policy.Abandoned.Step names the step.
//
// function gets a context with the values of ctx, which ends with ctx and with the run.
// The context carries no transaction, because a recorded step stays when the transaction
// rolls back. DeriveKey and KeyFrom work in it, and another Step does not.
//
// If the step could not be begun, function is not called, and the error wraps
// ErrUnavailable, ErrLeaseLost or the cause with which the context ended. Where the guard
// let the request through (an observing route, a request without a key, FailOpen
// without its store, SkipIf), Step calls function and records no result. Without a
// guard, Step returns an error and does not call function.
//
// Step is safe for concurrent use by the goroutines of a handler.
func Step[T any](ctx context.Context, name string, function func(context.Context) (T, error)) (T, error) {
	var result, none T
	if function == nil {
		return none, fmt.Errorf("oncekey: step %q is given a nil function", name)
	}
	err := runStep(ctx, name, typed{
		run:    func(ctx context.Context) (err error) { result, err = function(ctx); return err },
		encode: func() ([]byte, error) { return json.Marshal(result) },
		decode: func(recorded []byte) error {
			result = none
			return json.Unmarshal(recorded, &result)
		},
	})
	if err != nil {
		return none, err
	}
	return result, nil
}

func runStep(ctx context.Context, name string, s typed) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("oncekey: step %q is given a nil context: give the handler's", name)
	case name == "":
		return errors.New(`oncekey: a step has no name: give one, such as "charge"`)
	case len(name) > maxStepName || !utf8.ValidString(name):
		return fmt.Errorf("oncekey: the name of step %.100q has %d bytes: give at most %d bytes of UTF-8", name, len(name), maxStepName)
	}
	recorder := recorderOf(ctx)
	switch found := recorder.(type) {
	case *Run:
		return found.step(ctx, name, s)
	case *Route: // let through
		return s.run(&stepContext{Context: storage.WithoutTransaction(ctx)})
	}
	switch recorder {
	case inStep:
		return fmt.Errorf("oncekey: step %q is inside another step: call it after the other", name)
	case inRecoverFunc:
		return fmt.Errorf("oncekey: step %q is inside a RecoverFunc: call it in the handler", name)
	default:
		return fmt.Errorf("oncekey: step %q has no guarded run: give the context of a guarded handler or of Do's function", name)
	}
}

// maxStepName bounds the name of a step in bytes.
const maxStepName = 100

// step returns the recorded result of the step, or calls its function and records the
// result.
func (r *Run) step(ctx context.Context, name string, s typed) error {
	recorded, err := r.hold.Steps().Begin(ctx, name)
	switch {
	case err != nil:
		return err
	case recorded != nil && recorded.Error != nil:
		return failure.Permanent(errors.New(*recorded.Error))
	case recorded != nil:
		if err := s.decode(recorded.Result); err != nil {
			return fmt.Errorf("oncekey: the recorded result of step %q cannot be decoded: %w", name, err)
		}
		return nil
	}
	return r.runStep(ctx, name, s)
}

// runStep calls the function of a step that was begun. The step is uncertain unless its
// result is recorded, or the function returned an ordinary error in time.
func (r *Run) runStep(ctx context.Context, name string, s typed) error {
	inner, cancel := newStepContext(ctx, r)
	uncertain := true
	defer func() { // no recover, so that a panic continues with its stack
		cancel()
		if uncertain {
			failure.MarkUncertain(&r.context, "the outcome of a step is unknown")
		}
		r.hold.Steps().End(uncertain)
	}()
	err := s.run(inner)
	switch {
	case err == nil || failure.IsPermanent(err) && !failure.IsUncertain(err):
		if lost := r.recordStep(name, s, err); lost != nil {
			return failure.Uncertain(fmt.Errorf("oncekey: step %q was called, and its result is not recorded: %w", name, lost))
		}
		uncertain = false
	case !failure.IsUncertain(err) && inner.Err() == nil:
		r.hold.Steps().Fail(name)
		uncertain = false
	}
	return err
}

// recordStep writes the result of the step, or its permanent error.
func (r *Run) recordStep(name string, s typed, permanent error) error {
	line, err := recordedLine(name, s, permanent)
	if err != nil {
		return err
	}
	return r.hold.Steps().Record(line)
}

// recordedLine encodes the result, and replaces it by the value that later attempts get.
func recordedLine(name string, s typed, permanent error) (steps.Line, error) {
	line := steps.Line{Step: name}
	if permanent != nil {
		line.Error = new(permanent.Error())
		return line, nil //nolint:nilerr // the error is the result
	}
	var err error
	if line.Result, err = s.encode(); err == nil {
		err = s.decode(line.Result)
	}
	return line, err
}
