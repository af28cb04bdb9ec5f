package handlertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// The client of a run.
const (
	// idempotencyKey was made when the bubble's clock began, for a policy.KeyAge.
	idempotencyKey = "00dc6acf-ac00-7d0e-8b1f-2c6d5e4a3b21"
	maxTries       = 30
	patience       = 5 * time.Minute
	longestBackoff = 10 * time.Minute
)

// attempt is one request on its way.
type attempt struct {
	process *process
	cancel  context.CancelFunc
	ends    time.Time     // of its context; zero: no deadline
	gone    chan struct{} // closed when the connection has ended

	told // guarded by the mutex of the world
}

// told is what an attempt tells beside its response.
type told struct {
	lost     string // the reason for which the client has no response
	code     string // of the engine's problem
	replayed bool
}

type attemptKey struct{}

// exchange is an attempt as the client sees it.
type exchange struct {
	told
	status int
	header http.Header
	body   []byte
	stored bool // the store had this response when it arrived
}

func (x *exchange) String() string {
	switch {
	case x.lost != "":
		return x.lost
	case x.replayed:
		return fmt.Sprintf("%d replay", x.status)
	case x.code != "":
		return fmt.Sprintf("%d %s", x.status, x.code)
	default:
		return strconv.Itoa(x.status)
	}
}

// isFinal reports whether a client stops after the response.
func (x *exchange) isFinal() bool {
	switch {
	case x.lost != "":
		return false
	case x.stored:
		return true
	case x.status == http.StatusConflict:
		return x.header.Get("Retry-After") == ""
	case x.status == http.StatusRequestTimeout, x.status == http.StatusTooEarly, x.status == http.StatusTooManyRequests:
		return false
	default:
		return x.status < http.StatusInternalServerError
	}
}

// isKept reports whether every later response must be equal.
func (x *exchange) isKept() bool {
	return x.lost == "" && (x.stored || x.status < http.StatusBadRequest)
}

func (x *exchange) equals(other *exchange) bool {
	return x.status == other.status && bytes.Equal(x.body, other.body)
}

// sendUntilFinal sends the request as a client does that retries.
func (w *World) sendUntilFinal() {
	for try := range maxTries {
		x := w.send()
		if x.isFinal() {
			return
		}
		pause := min(time.Second<<min(try, 16), longestBackoff)
		if seconds, err := strconv.Atoi(x.header.Get("Retry-After")); err == nil {
			pause = max(pause, time.Duration(seconds)*time.Second)
		}
		time.Sleep(pause) //nolint:forbidigo // in a bubble
	}
}

// send sends the request once.
func (w *World) send() *exchange {
	a, r := w.newAttempt()
	recorder, done := httptest.NewRecorder(), make(chan struct{})
	w.serving.Go(func() {
		defer close(done)
		w.serve(a, recorder, r)
	})
	waiting := time.NewTimer(patience)
	defer waiting.Stop()
	select {
	case <-done:
		w.rest()
	case <-a.gone:
	case <-a.process.dead:
	case <-waiting.C:
		w.disconnect(a, "no response in "+patience.String())
	}
	if a.process.isDead() {
		w.disconnect(a, "connection lost")
	}
	x := w.read(a, recorder)
	if _, failing := w.arrive(response, "response"); failing {
		*x = exchange{told: told{lost: replyLost}}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.numbered = true
	w.responses = append(w.responses, *x)
	return x
}

// rest lets the goroutines that a handler has left behind make their calls before the client
// has its response, so that they are points in each run.
func (w *World) rest() {
	if w.resting.CompareAndSwap(false, true) { // a lost lease in such a call has a client of its own
		synctest.Wait()
		w.resting.Store(false)
	}
}

// newAttempt makes the request, with its context.
func (w *World) newAttempt() (*attempt, *http.Request) {
	a := &attempt{process: w.current(), gone: make(chan struct{})}
	ctx := context.WithValue(w.Context(), attemptKey{}, a)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plan != nil && w.plan.fault.endsContext() && !w.fired {
		a.ends = time.Now().Add(deadline)
		ctx, a.cancel = context.WithDeadline(ctx, a.ends)
	} else {
		ctx, a.cancel = context.WithCancel(ctx)
	}
	w.last = a
	return a, w.service.Request.with(ctx)
}

// with makes the HTTP request.
func (q *Request) with(ctx context.Context) *http.Request {
	r := httptest.NewRequestWithContext(ctx, cmp.Or(q.Method, http.MethodPost), q.Path, strings.NewReader(q.Body))
	for name, values := range q.Header {
		r.Header[http.CanonicalHeaderKey(name)] = append([]string(nil), values...)
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	if q.Body != "" && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set(cmp.Or(q.KeyHeader, core.KeyHeader), idempotencyKey)
	return r
}

// serve runs the handler, and recovers its panic as net/http's server does.
func (w *World) serve(a *attempt, to http.ResponseWriter, r *http.Request) {
	defer a.cancel()
	defer func() {
		if cause := recover(); cause != nil {
			w.disconnect(a, "connection lost")
		}
	}()
	a.process.handler.ServeHTTP(to, r)
}

// disconnect ends the connection of an attempt, unless it has ended already.
func (w *World) disconnect(a *attempt, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.lost == "" {
		a.lost = why
		a.cancel()
		close(a.gone)
	}
}

// read returns the response of an attempt that has ended.
func (w *World) read(a *attempt, recorder *httptest.ResponseRecorder) *exchange {
	w.mu.Lock()
	x := &exchange{told: a.told}
	w.mu.Unlock()
	if x.lost != "" {
		return &exchange{told: told{lost: x.lost}}
	}
	x.status, x.header, x.body = recorder.Code, recorder.Result().Header, recorder.Body.Bytes()
	x.stored = w.lookup().has(x)
	x.code = cmp.Or(x.code, codeOf(x))
	return x
}

// codeOf returns the code of the engine's problem in a response, or "".
func codeOf(x *exchange) string {
	var p problem.Problem
	if x.header.Get("Content-Type") != "application/problem+json" || json.Unmarshal(x.body, &p) != nil || !slices.Contains(problem.Codes(), p.Code) {
		return ""
	}
	return p.Code
}

// stored is the store's record at the end of a run.
type stored struct{ *storage.Record }

// lookup returns the record of the key, or nil.
func (w *World) lookup() *stored {
	w.mu.Lock()
	key := w.lease.Key
	w.mu.Unlock()
	record, err := w.memory.Lookup(context.Background(), key)
	if err != nil || record == nil {
		return nil
	}
	return &stored{record}
}

// has reports whether the record is this response.
func (s *stored) has(x *exchange) bool {
	return s != nil && (s.State == storage.Completed || s.State == storage.Failed) && s.Status == x.status && bytes.Equal(s.Body, x.body)
}
