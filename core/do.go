package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/fingerprint"
)

// Call is one call of a function that must not happen twice.
type Call struct {
	// Scope names whose key it is, such as a tenant or a queue. Not empty.
	Scope string
	// Name of the function: the same key under another name is another call. Not
	// empty.
	Name string
	// Key is the caller's intent, such as a message's id: up to 255 bytes. An
	// empty one is refused, unless the policy says that none is required: then the
	// function runs unguarded.
	Key string
	// Input is what the function is given: the same key with another input is
	// refused with ErrKeyReused. Fields that the policy excludes do not count. Nil
	// counts as no input at all.
	Input any
	// Policy is made by Engine.Route or MustRoute, once, where the function is
	// declared. Nil takes the defaults. Its Methods, KeepHeaders and
	// MaxRequestBytes mean nothing here.
	Policy *Route
	// Codec turns Input and the result into what is stored. Nil is JSON.
	Codec Codec
}

// Codec encodes results to be stored, and decodes them for duplicates. It must be
// safe for concurrent use. Its methods are those of encoding/json.
type Codec interface {
	Marshal(v any) ([]byte, error)
	// Unmarshal reads what Marshal wrote into the pointer v.
	Unmarshal(data []byte, v any) error
	// MediaType of the encoded input. A JSON type makes its fingerprint canonical;
	// any other must encode equal inputs as equal bytes.
	MediaType() string
}

// Info tells how a Do came by its result.
type Info struct {
	// Replayed says that the function ran before, and this is its stored result.
	Replayed bool
	// Attempt is the number of the attempt that made the result, from 1; zero when
	// the function ran without protection.
	Attempt uint64
}

// Do runs function once for the call's key, and returns its result to every call
// that repeats it: the engine for jobs, message consumers and anything else that
// is no HTTP handler.
//
// The context of function is not ctx but the run's (see Run.Context): it keeps
// ctx's values and deadline and outlives its cancellation, because half a run is
// worse than a late one. core.DeriveKey, failure.MarkExecuted and the rest work
// on it.
//
// What becomes of the key is decided by package failure: a result is kept; an
// error frees the key, so that the next call runs the function again, unless it
// is wrapped by failure.Permanent or the run was marked executed. Then the error
// is kept, as its text, and this call and every repetition return it wrapped by
// failure.Permanent. A result that the codec cannot encode, or that is larger
// than MaxResponseBytes, is returned once and not kept.
//
// Do itself fails with an error that wraps ErrInProgress, ErrKeyReused,
// ErrNotReplayable, ErrOutcomeUnknown or ErrUnavailable, when the function did
// not run; ErrLeaseLost or ErrNotConfirmed, when it ran and its result must not
// be used. A panic of function is settled and goes on. Do is safe for concurrent
// use.
func Do[T any](ctx context.Context, e *Engine, call Call, function func(context.Context) (T, error)) (T, Info, error) {
	if call.Codec == nil {
		call.Codec = jsonCodec{}
	}
	var result, none T
	switch {
	case e == nil:
		return none, Info{}, errors.New("oncekey: Do is given a nil Engine: make it with core.New")
	case function == nil:
		return none, Info{}, errors.New("oncekey: Do is given a nil function")
	}
	info, err := e.do(ctx, &call, steps{
		run:    func(ctx context.Context) (err error) { result, err = function(ctx); return err },
		encode: func() ([]byte, error) { return call.Codec.Marshal(result) },
		decode: func(stored []byte) error { return call.Codec.Unmarshal(stored, &result) },
	})
	if err != nil {
		return none, info, err
	}
	return result, info, nil
}

// steps are what Do does that depends on the type of the result.
type steps struct {
	run    func(context.Context) error
	encode func() ([]byte, error)
	decode func([]byte) error
}

func (e *Engine) do(ctx context.Context, call *Call, s steps) (Info, error) {
	a, err := e.admitCall(call)
	defer a.forget()
	switch {
	case err != nil:
		e.report(ctx, a, event.Event{Result: event.Refused, Code: problem.KeyInvalid, Err: err})
		return Info{}, err
	case a.request.Key == "":
		e.report(ctx, a, event.Event{Result: event.NoKey})
		return Info{}, s.run(ctx)
	case a.outside(ctx) != nil:
		return Info{}, s.run(ctx)
	}
	if a.route.observes {
		return Info{}, e.observeCall(ctx, a, s)
	}
	decision := e.begin(ctx, a)
	switch {
	case decision.Run != nil:
		return e.call(decision.Run, s)
	case decision.Record != nil:
		return recall(decision.Record, s)
	case decision.Problem != nil:
		return Info{}, &RefusedError{Problem: *decision.Problem}
	default:
		return Info{}, s.run(ctx)
	}
}

// admitCall returns what is known of a call, and what is wrong with it.
func (e *Engine) admitCall(call *Call) (*admission, error) {
	a := &admission{
		subject: subject{route: call.Policy},
		started: time.Now(),
	}
	e.setRequest(a, Request{Scope: call.Scope, Method: storage.MethodCall, Path: call.Name, Pattern: call.Name, Key: call.Key})
	if a.route == nil {
		a.route = e.defaults
	}
	switch {
	case call.Scope == "":
		return a, errors.New(`oncekey: Call.Scope is empty: name whose key it is, such as a tenant or a queue`)
	case call.Name == "":
		return a, errors.New(`oncekey: Call.Name is empty: name the function, such as "charge"`)
	case call.Key == "" && a.route.policy.Required:
		return a, fmt.Errorf("oncekey: Call.Key of %q is empty: give the intent's name, such as a message's id", call.Name)
	case len(call.Key) > maxKeyLength:
		return a, fmt.Errorf("oncekey: Call.Key of %q has %d bytes: give at most %d", call.Name, len(call.Key), maxKeyLength)
	}
	input := fingerprint.Request{Method: storage.MethodCall, Path: call.Name}
	if call.Input != nil {
		encoded, err := call.Codec.Marshal(call.Input)
		if err != nil {
			return a, fmt.Errorf("oncekey: Call.Input of %q cannot be encoded: %w", call.Name, err)
		}
		input.ContentType, input.Body = call.Codec.MediaType(), encoded
	}
	a.digest = e.digest(&a.request)
	a.read(input)
	return a, nil
}

// call runs the function under its lease.
func (e *Engine) call(run *Run, s steps) (Info, error) {
	outcome, answer := failure.Outcome{Panicked: true}, Answer{Status: http.StatusInternalServerError, Body: []byte("the function panicked")}
	defer func() {
		if outcome.Panicked { // it goes on, with the stack it came from
			_ = e.Finish(run, outcome, answer)
		}
	}()
	err := s.run(run.Context())
	if err == nil {
		outcome.Executed = true // whatever the codec does
		answer, outcome = encodedResult(s)
	} else {
		answer, outcome = Answer{Status: statusOf(err), Body: []byte(err.Error())}, failure.Outcome{Err: err, ContextEnded: run.context.Err() != nil}
	}
	info := Info{Attempt: run.lease.Attempt}
	if lost := e.Finish(run, outcome, answer); lost != nil {
		return info, lost
	}
	if err != nil && run.isKept() && !failure.IsPermanent(err) {
		err = failure.Permanent(err)
	}
	return info, err
}

// encodedResult returns the result as it is stored; one that cannot be encoded is
// finished, and not kept.
func encodedResult(s steps) (Answer, failure.Outcome) {
	body, err := s.encode()
	answer := Answer{Status: http.StatusOK, Body: body, Unreplayable: err != nil}
	return answer, failure.Outcome{Status: http.StatusOK, Err: err}
}

// statusOf is the status under which an error is stored.
func statusOf(err error) int {
	if failure.IsPermanent(err) {
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// recall returns what an earlier call of the function returned.
func recall(record *storage.Record, s steps) (Info, error) {
	info := Info{Replayed: true, Attempt: record.Attempt}
	if record.State == storage.Failed {
		return info, failure.Permanent(errors.New(string(record.Body)))
	}
	if err := s.decode(record.Body); err != nil {
		return info, fmt.Errorf("oncekey: the stored result cannot be decoded: %w", err)
	}
	return info, nil
}

// observeCall runs the function as if there were no guard, and reports what one
// would have done.
func (e *Engine) observeCall(ctx context.Context, a *admission, s steps) error {
	watched := &observedContext{Context: ctx, subject: &a.subject}
	run := e.begin(watched, a).Run
	if run == nil {
		return s.run(watched)
	}
	watched.marks = &run.marks
	outcome := failure.Outcome{Panicked: true}
	defer func() {
		run.wouldKeep = true
		_ = e.Finish(run, outcome, Answer{Status: outcome.Status, Unreplayable: true}) // what fails is reported
	}()
	err := s.run(watched)
	outcome = failure.Outcome{Err: err}
	if err == nil {
		outcome.Status = http.StatusOK
	}
	return err
}

// RefusedError is what Do returns when the engine did not run the function. It
// wraps the sentinel of the Problem's code.
type RefusedError struct{ Problem problem.Problem }

// Error returns "oncekey: in_progress: …".
func (e *RefusedError) Error() string {
	return "oncekey: " + e.Problem.Code + ": " + e.Problem.Detail
}

// Unwrap returns the sentinel of the problem's code.
func (e *RefusedError) Unwrap() error { return refusals[e.Problem.Code] }

var refusals = map[string]error{
	problem.InProgress:       ErrInProgress,
	problem.KeyReused:        ErrKeyReused,
	problem.NotReplayable:    ErrNotReplayable,
	problem.OutcomeUnknown:   ErrOutcomeUnknown,
	problem.StoreUnavailable: ErrUnavailable,
	problem.ShuttingDown:     ErrUnavailable,
}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func (jsonCodec) MediaType() string { return "application/json" }
