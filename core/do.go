package core

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/fingerprint"
)

// Call is one call of a function that must not happen twice.
type Call struct {
	// Scope names the owner of the key, such as a tenant or a queue. Not empty.
	Scope string
	// Name of the function: the same key under another name is another call. Not
	// empty.
	Name string
	// Key is the caller's intent, such as a message's id: up to 255 bytes. An empty
	// key is refused, unless the policy requires no key. Then the function runs
	// unguarded. Where the policy has a KeyAge, the key is a UUID of version 7 or a ULID.
	Key string
	// Input is the input of the function. The same key with another input is refused
	// with ErrKeyReused. Fields that the policy excludes do not count. Nil means no
	// input.
	Input any
	// Route comes from Engine.Route or MustRoute, called once where the function is
	// declared. Nil means the default policy. Do ignores the policy's Methods, KeyField,
	// KeyFormat, SkipIf, IncludeHeaders, KeepHeaders and MaxRequestBytes.
	Route *Route
	// Codec encodes Input and the result. Nil means JSON.
	Codec Codec
}

// Codec encodes results for the store, and decodes stored results for duplicates. A
// Codec must be safe for concurrent use, and may share the bytes with the value.
type Codec interface {
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes Marshal's data into the pointer v: to a nil pointer, for a result such as *pb.Receipt.
	Unmarshal(data []byte, v any) error
	// MediaType of the encoded input. With a JSON type the fingerprint is canonical.
	// With any other type, equal inputs must be encoded as equal bytes.
	MediaType() string
}

// Info describes the result of a Do.
type Info struct {
	// Replayed says that an earlier call ran the function and stored this result.
	Replayed bool
	// Attempt is the number of the attempt that made the result, from 1. Zero means
	// that the function ran without protection.
	Attempt uint64
}

// Do runs function once for the call's key, and returns the stored result to every
// repeated call. Use Do for jobs, message consumers and other functions that are not
// HTTP handlers.
//
// function gets the run's context (see Run.Context), on which core.DeriveKey, failure.MarkExecuted
// and similar functions work. The run's context has the values and the deadline of ctx. It is not
// cancelled with ctx, because a half-finished run is worse than a late run. If the store fails, the
// engine calls it again after Do has returned. The Observer and hooks of the store's client may then
// read values of ctx. gin reuses a *gin.Context: pass c.Request.Context().
//
// Do stores a result, by the rules of package failure. An error of function releases
// the key, so that the next call runs function again. But an error wrapped by
// failure.Permanent, or an error after the run was marked executed, is stored as text.
// Then this call and every repeated call return that error wrapped by
// failure.Permanent, and no other error is permanent. A result that the codec cannot encode, or that is larger than
// MaxResponseBytes, is returned once and not stored. One that it cannot decode is ErrNotReplayable.
//
// If function did not run, the error of Do wraps ErrInProgress, ErrKeyReused,
// ErrNotReplayable, ErrKeyExpired, ErrOutcomeUnknown, ErrScopeLimited or ErrUnavailable, or
// the call is wrong. A Key that is missing, too long, or without a time that the policy's
// KeyAge needs is a RefusedError with the code key_missing or key_invalid. If function ran
// and its result must not be used, the error wraps ErrLeaseLost, ErrNotConfirmed or, in a
// transaction, storage.ErrRolledBack. A panic of function is settled and continues. A call of
// the same name and key that function makes with its context is a part of this one, and runs its
// own function. With another context it gets ErrInProgress after the policy's Wait. Do is safe for concurrent use.
func Do[T any](ctx context.Context, e *Engine, call Call, function func(context.Context) (T, error)) (T, Info, error) {
	if call.Codec == nil {
		call.Codec = jsonCodec{}
	}
	var result, none T
	switch {
	case ctx == nil:
		return none, Info{}, errors.New("oncekey: Do is given a nil context: give the caller's, or context.Background()")
	case e == nil:
		return none, Info{}, errors.New("oncekey: Do is given a nil Engine: make it with core.New")
	case function == nil:
		return none, Info{}, errors.New("oncekey: Do is given a nil function")
	case call.Route != nil && call.Route.exclusion == nil: // compile sets it
		return none, Info{}, errors.New("oncekey: Call.Route is not from an Engine: give that of MustRoute, or nil for the default policy")
	}
	info, err := do(ctx, e, &call, typed{
		run:    func(ctx context.Context) (err error) { result, err = function(ctx); return err },
		encode: func() ([]byte, error) { return call.Codec.Marshal(result) },
		decode: func(stored []byte) error { return call.Codec.Unmarshal(stored, &result) },
	})
	if err != nil {
		return none, info, err
	}
	return result, info, nil
}

// typed has the parts of Do and Step that depend on the type of the result.
type typed struct {
	run    func(context.Context) error
	encode func() ([]byte, error)
	decode func([]byte) error
}

func do(ctx context.Context, e *Engine, call *Call, s typed) (Info, error) {
	a := newAttempt(&e.shared, cmp.Or(call.Route, e.defaults))
	err := admitCall(a, call)
	defer a.forget()
	switch {
	case err != nil:
		code := problem.KeyInvalid
		if refused, is := errors.AsType[*RefusedError](err); is {
			code = refused.Problem.Code
		}
		a.report(ctx, &event.Event{Result: event.Refused, Code: code, Err: err})
		return Info{}, err
	case a.request.Key == "":
		a.report(ctx, &event.Event{Result: event.NoKey})
		return Info{}, s.run(unrecorded(ctx, a.route))
	case a.outside(ctx) != nil:
		return Info{}, s.run(ctx)
	case a.route.observes:
		return Info{}, observeCall(ctx, a, s)
	}
	decision := a.begin(ctx)
	switch {
	case decision.Run != nil:
		return runCall(decision.Run, s)
	case decision.Record != nil:
		return recall(decision.Record, s)
	case decision.Problem != nil:
		return Info{}, &RefusedError{*decision.Problem, a.failure}
	}
	return Info{}, s.run(unprotected(ctx, a.identity))
}

// admitCall sets the request and the input of a call, or returns an error for a wrong call.
func admitCall(a *attempt, call *Call) error {
	a.request = Request{Scope: call.Scope, Method: storage.MethodCall, Path: call.Name, Pattern: call.Name, Key: call.Key}
	a.address()
	switch {
	case call.Scope == "":
		return errors.New(`oncekey: Call.Scope is empty: name whose key it is, such as a tenant or a queue`)
	case call.Name == "":
		return errors.New(`oncekey: Call.Name is empty: name the function, such as "charge"`)
	case call.Key == "" && a.route.policy.Required:
		return refusedKey(problem.KeyMissing, fmt.Sprintf("Call.Key of %q is empty: give the intent's name, such as a message's id", call.Name))
	case len(call.Key) > wire.MaxKeyLength:
		return refusedKey(problem.KeyInvalid, fmt.Sprintf("Call.Key of %q has %d bytes: give at most %d", call.Name, len(call.Key), wire.MaxKeyLength))
	}
	if err := a.checkAge("Call.Key", nil); err != nil {
		return refusedKey(problem.KeyInvalid, fmt.Sprintf("the call of %q: %v", call.Name, err))
	}
	input := fingerprint.Request{Method: storage.MethodCall, Path: call.Name}
	if call.Input != nil {
		encoded, err := call.Codec.Marshal(call.Input)
		if err != nil {
			return fmt.Errorf("oncekey: Call.Input of %q cannot be encoded: %w", call.Name, err)
		}
		input.ContentType, input.Body = call.Codec.MediaType(), encoded
	}
	a.read(input)
	return nil
}

// refusedKey returns the error for a key that a call cannot have.
func refusedKey(code, text string) error {
	refusal := problem.New(code, text)
	refusal.Detail = text
	return &RefusedError{Problem: *refusal}
}

// runCall runs the function under its lease.
func runCall(run *Run, s typed) (Info, error) {
	outcome, response := failure.Outcome{Panicked: true}, Response{Status: http.StatusInternalServerError, Body: []byte("the function panicked")}
	defer func() {
		if outcome.Panicked { // no recover, so that the panic continues with its stack
			_ = run.end(outcome, response)
		}
	}()
	err := s.run(run.Context())
	if err == nil {
		outcome.Executed = true // even if encoding fails
		response, outcome = encodedResult(s)
	} else {
		response, outcome = Response{Status: statusOf(err), Body: []byte(err.Error())}, failure.Outcome{Err: err, ContextEnded: run.context.Err() != nil}
	}
	info := Info{Attempt: run.hold.Lease.Attempt}
	if lost := run.end(outcome, response); lost != nil {
		return info, lost
	}
	if err != nil && run.hold.IsKept() {
		err = failure.Permanent(err)
	} else if failure.IsPermanent(err) { // another mark, or the policy, has released the key
		err = failure.Retryable(err)
	}
	return info, err
}

// encodedResult returns the encoded result. One that cannot be encoded is Unreplayable.
func encodedResult(s typed) (Response, failure.Outcome) {
	body, err := s.encode()
	response := Response{Status: http.StatusOK, Body: append([]byte(nil), body...), Unreplayable: err != nil} // a codec may return the result's own memory
	return response, failure.Outcome{Status: http.StatusOK, Err: err}
}

// statusOf returns the status under which an error is stored.
func statusOf(err error) int {
	if failure.IsPermanent(err) {
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// recall decodes the stored result of an earlier call.
func recall(record *storage.Record, s typed) (Info, error) {
	info := Info{Replayed: true, Attempt: record.Attempt}
	if record.State == storage.Failed {
		return info, failure.Permanent(errors.New(string(record.Body)))
	}
	if err := s.decode(append([]byte(nil), record.Body...)); err != nil { // a codec may keep the bytes in the result
		return info, fmt.Errorf("oncekey: the stored result cannot be decoded: %w (%w)", err, ErrNotReplayable)
	}
	return info, nil
}

// observeCall runs the function without a guard, and reports the decision that a guard
// would have made.
func observeCall(ctx context.Context, a *attempt, s typed) error {
	watched := &observedContext{Context: ctx, identity: a.identity}
	run := a.begin(watched).Run
	if run == nil {
		return s.run(watched)
	}
	watched.marks.Store(&run.marks)
	outcome, status := failure.Outcome{Panicked: true}, http.StatusInternalServerError
	defer func() {
		run.wouldKeep = true
		_ = run.end(outcome, Response{Status: status, Unreplayable: true}) // Finish reports failures
	}()
	err := s.run(watched)
	status, outcome = statusOf(err), failure.Outcome{Err: err}
	if err == nil {
		status, outcome = http.StatusOK, failure.Outcome{Status: http.StatusOK}
	}
	return err
}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func (jsonCodec) MediaType() string { return "application/json" }
