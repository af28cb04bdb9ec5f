package core

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/policy"
)

// Handler guards a net/http handler with a policy of its own. It panics when
// the policy is wrong, as http.ServeMux does when a pattern is.
//
//	mux.Handle("POST /payments", engine.Handler(pay, policy.TTLHours(48)))
func (e *Engine) Handler(next http.Handler, opts ...policy.Option) http.Handler {
	route := e.MustRoute(opts...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.Serve(w, r, route, next)
	})
}

// Serve guards one request: it runs next, or replays the stored answer, or
// answers with a problem. It is what the adapters are made of.
//
// next gets a writer that keeps the answer until it is stored, and a request
// with an equal body and the context of the run (see Run.Context). The writer
// supports http.ResponseController, http.Flusher and http.Hijacker; an answer
// that is flushed, hijacked or larger than MaxResponseBytes goes straight
// through and cannot be replayed. A panic of next is settled and goes on.
func (e *Engine) Serve(w http.ResponseWriter, r *http.Request, route *Route, next http.Handler) {
	if !route.Guards(r.Method) {
		next.ServeHTTP(w, r)
		return
	}
	a := &admission{subject: subject{route: route, instance: e.instance}, started: time.Now()}
	refusal := e.identify(r, a)
	switch {
	case refusal != nil:
		e.refuse(w, r, a, refusal, next)
	case a.request.Key == "":
		e.report(r.Context(), a, Event{Result: ResultNoKey})
		next.ServeHTTP(w, r)
	case route.observes:
		e.observe(w, r, a, next)
	case a.isNested(r.Context()):
		if route.nested.first() {
			e.report(r.Context(), a, Event{Result: ResultNested})
		}
		next.ServeHTTP(w, r)
	default:
		e.guard(w, r, a, next)
	}
}

// guard serves a request that is known by a key.
func (e *Engine) guard(w http.ResponseWriter, r *http.Request, a *admission, next http.Handler) {
	room := rooms.Get().(*room)
	defer rooms.Put(room)
	body, refusal := readBody(w, r, room[:0], a.route.policy.MaxRequestBytes)
	if refusal != nil {
		e.refuse(w, r, a, refusal, next)
		return
	}
	a.read(a.fingerprinted(r, body))
	a.served = true
	decision := e.begin(r.Context(), a)
	switch {
	case decision.Run != nil:
		e.execute(w, r, decision.Run, body, next)
	case decision.Record != nil:
		e.replay(w, decision.Record)
	case decision.Problem != nil:
		e.writeProblem(w, r, *decision.Problem)
	default:
		var restored restoredBody
		defer restored.Close()
		next.ServeHTTP(w, restored.in(r, r.Context(), body))
	}
}

// refuse answers a request that never reaches the store; where the route only
// observes, next does.
func (e *Engine) refuse(w http.ResponseWriter, r *http.Request, a *admission, refusal *Problem, next http.Handler) {
	e.report(r.Context(), a, Event{Result: ResultRefused, Code: refusal.Code, Err: errors.New(refusal.Error)})
	if a.route.observes {
		next.ServeHTTP(w, r)
		return
	}
	e.writeProblem(w, r, *refusal)
}

// identify finds out whose key the request carries, and to what it belongs.
// Without a key, and without need of one, a.request.Key stays empty.
func (e *Engine) identify(r *http.Request, a *admission) *Problem {
	a.request = Request{Method: r.Method, Path: requestPath(r), Pattern: r.Pattern}
	key, err := keyFromHeader(r.Header)
	switch {
	case errors.Is(err, errKeyMissing) && !a.route.policy.Required:
		return nil
	case errors.Is(err, errKeyMissing):
		return problem(CodeKeyMissing, err.Error())
	case err != nil:
		return problem(CodeKeyInvalid, err.Error())
	}
	scope, err := e.scope(r)
	if err != nil || scope == "" {
		return problem(CodePrincipalMissing, "")
	}
	a.request.Scope, a.request.Key = scope, key
	a.digest = a.request.digest()
	return nil
}

// isNested reports whether this very request is guarded already, by a policy
// on a group or on the router. The outermost policy counts.
func (s *subject) isNested(ctx context.Context) bool {
	run := runFrom(ctx)
	return run != nil && run.subject.digest == s.digest
}

// fingerprinted is what the request's fingerprint is taken of.
func (a *admission) fingerprinted(r *http.Request, body []byte) fingerprint.Request {
	return fingerprint.Request{
		Method: r.Method, Path: a.request.Path, RawQuery: r.URL.RawQuery,
		ContentType: r.Header.Get("Content-Type"), Body: body,
	}
}

// execution is what the run of an HTTP handler needs, in one piece.
type execution struct {
	run      Run
	captured capture
	body     restoredBody
}

// execute runs the handler under the lease.
func (e *Engine) execute(w http.ResponseWriter, r *http.Request, run *Run, body []byte, next http.Handler) {
	captured := &run.execution.captured
	guarded := run.execution.body.in(r, run.Context(), body)
	captured.begin(w, guarded, run)
	panicked := true
	// No recover: the panic goes on by itself, with the stack it came from.
	defer func() {
		run.execution.body.Close()
		captured.finish(panicked)
	}()
	next.ServeHTTP(captured, guarded)
	panicked = false
}

// replay writes a stored answer.
func (e *Engine) replay(w http.ResponseWriter, record *Record) {
	values := make([]string, len(record.Header)+1)
	marker := values[len(record.Header):]
	marker[0] = "true"
	record.Header.apply(w.Header(), values)
	w.Header()[e.replayHeader] = marker
	writeAnswer(w, record.Status, record.Body)
}

func writeAnswer(w http.ResponseWriter, status int, body []byte) {
	w.WriteHeader(status)
	if len(body) > 0 {
		w.Write(body) //nolint:errcheck // a client that is gone cannot be told
	}
}

// cancelledProblem is the answer of a handler that wrote none because its
// context ended.
func cancelledProblem(outcome failure.Outcome) *Problem {
	switch {
	case outcome.Executed:
		return problem(CodeHandlerFailed, "")
	case errors.Is(outcome.Err, ErrLeaseLost):
		return problem(CodeInProgress, "")
	default:
		return problem(CodeHandlerCancelled, "")
	}
}

// unstoredProblem takes the place of an answer that Finish says must not be shown.
func unstoredProblem(err error) *Problem {
	if errors.Is(err, ErrNotConfirmed) {
		return problem(CodeNotConfirmed, "")
	}
	return problem(CodeInProgress, "")
}
