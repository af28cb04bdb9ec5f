package core

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
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
	case isNested(r.Context(), a.storageKey):
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
	body, refusal := a.readRequest(w, r)
	if refusal != nil {
		e.refuse(w, r, a, refusal, next)
		return
	}
	decision := e.begin(r.Context(), a)
	switch {
	case decision.Run != nil:
		e.execute(w, r, decision.Run, body, next)
	case decision.Record != nil:
		e.replay(w, decision.Record)
	case decision.Problem != nil:
		e.writeProblem(w, r, *decision.Problem)
	default:
		next.ServeHTTP(w, withBody(r, r.Context(), body, new(restoredBody)))
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
	a.storageKey = StorageKey(scope, r.Method, a.request.Path, key)
	return nil
}

// readRequest reads the body and takes the request's fingerprint. The store is
// asked after that.
func (a *admission) readRequest(w http.ResponseWriter, r *http.Request) ([]byte, *Problem) {
	body, refusal := readBody(w, r, a.small[:0], a.route.policy.MaxRequestBytes)
	if refusal != nil {
		return nil, refusal
	}
	a.takeFingerprint(r, body)
	return body, nil
}

func (a *admission) takeFingerprint(r *http.Request, body []byte) {
	a.hashed = fingerprint.Request{
		Method: r.Method, Path: a.request.Path, RawQuery: r.URL.RawQuery,
		ContentType: r.Header.Get("Content-Type"), Body: body,
	}
	a.request.Fingerprint = fingerprint.Of(a.hashed, a.route.exclusion)
	a.token = NewToken()
}

// readBody reads the whole body, which is at most limit bytes, into small if it
// is large enough.
func readBody(w http.ResponseWriter, r *http.Request, small []byte, limit int64) ([]byte, *Problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, problem(CodeBodyTooLarge, "")
	}
	source := r.Body
	if r.ContentLength < 0 { // the server is to close the connection when there is more
		source = http.MaxBytesReader(w, source, limit)
	}
	body, err := readAll(source, small, r.ContentLength, limit)
	switch {
	case isTooLarge(err), int64(len(body)) > limit: // a length that was not true
		return nil, problem(CodeBodyTooLarge, "")
	case err != nil:
		return nil, problem(CodeBodyUnreadable, "")
	case len(body) == 0 && r.ContentLength > 0:
		return nil, problem(CodeBodyUnreadable, "Request body was read before it reached the idempotency guard")
	}
	return body, nil
}

// readAll reads to the end, or beyond the limit, or to an error. The length is what the client
// claims, or negative: it does not reserve more than a first read.
func readAll(r io.Reader, buffer []byte, length, limit int64) ([]byte, error) {
	const firstRead = 64 << 10
	if need := int(min(length, firstRead)) + 1; need > cap(buffer) { // one more, to see the end
		buffer = make([]byte, 0, need)
	}
	for int64(len(buffer)) <= limit {
		if len(buffer) == cap(buffer) {
			buffer = slices.Grow(buffer, max(bytes.MinRead, len(buffer)))
		}
		n, err := r.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case errors.Is(err, io.EOF):
			return buffer, nil
		case err != nil:
			return buffer, err
		}
	}
	return buffer, nil
}

func isTooLarge(err error) bool {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	return tooLarge
}

// withBody returns the request with an equal body and another context.
func withBody(r *http.Request, ctx context.Context, body []byte, restored *restoredBody) *http.Request { //nolint:revive // the request is what this is about
	r = r.WithContext(ctx)
	if body != nil {
		restored.Reset(body)
		r.Body = restored
	}
	return r
}

// restoredBody is a body that was read already.
type restoredBody struct{ bytes.Reader }

func (*restoredBody) Close() error { return nil }

// isNested reports whether this very request is guarded already, by a policy
// on a group or on the router. The outermost policy counts.
func isNested(ctx context.Context, storageKey string) bool {
	run := runFrom(ctx)
	return run != nil && run.lease.Key == storageKey
}

// execute runs the handler under the lease.
func (e *Engine) execute(w http.ResponseWriter, r *http.Request, run *Run, body []byte, next http.Handler) {
	var execution struct { // in one piece
		captured capture
		body     restoredBody
	}
	guarded := withBody(r, run.Context(), body, &execution.body)
	captured := &execution.captured
	captured.begin(w, guarded, run)
	panicked := true
	// No recover: the panic goes on by itself, with the stack it came from.
	defer func() { captured.finish(panicked) }()
	next.ServeHTTP(captured, guarded)
	panicked = false
}

// replay writes a stored answer.
func (e *Engine) replay(w http.ResponseWriter, record *Record) {
	record.Header.apply(w.Header(), nil)
	w.Header()[e.replayHeader] = []string{"true"}
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
