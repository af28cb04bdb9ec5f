package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
)

// attempt is one request before the engine has decided about it. No other goroutine and
// no later code keeps an attempt, so it stays on the stack: a replay allocates a quarter
// less, and a first-time request 7 % less (TestAllocations).
type attempt struct {
	*identity
	*claimant                 // from the reading of the request until the decision
	body      []byte          // of a policy with a KeyField, which is read early
	sketch    []byte          // of the first request with the key, if this request differs
	failure   error           // of the store, for the event of the decision
	found     *storage.Record // the last record that decided
	waited    bool            // the key was in progress in an earlier round
	waits     bool            // the request is counted in shared.waiters
	alloc     func() *Run     // makes the run; nil: new(Run)
	claim     ledger.Claim    // in place: passed on by value it would grow the stack beyond 8 KiB
}

// newAttempt begins the attempt of a request.
func newAttempt(s *shared, route *Route) *attempt {
	return &attempt{identity: &identity{shared: s, route: route, started: time.Now()}}
}

// read begins the claim of a request. The request's body must not change before the
// decision.
func (a *attempt) read(input fingerprint.Request) {
	a.claimant = newClaimant(a.identity)
	a.input, a.bytes = input, fingerprint.Digest(input)
}

// recordName returns the storage key, or "" before read and Begin.
func (a *attempt) recordName() string {
	if a.record == "" && a.claimant != nil && a.bytes != (storage.Digest{}) {
		var digits [2 * sha256.Size]byte
		a.record = string(hex.AppendEncode(digits[:0], a.digest[:]))
	}
	return a.record
}

// forget drops the request's body, because events outlive the request.
func (a *attempt) forget() {
	if a.claimant != nil {
		a.claimant.end()
		a.claimant, a.body = nil, nil
	}
}

// identify sets the request's key, scope and storage key, or returns a problem. Where
// the policy requires no key, a.request.Key may stay empty.
func (a *attempt) identify(r *http.Request) *problem.Problem {
	a.request.Method, a.request.Path, a.request.Pattern = r.Method, wire.RequestPath(r), r.Pattern
	defer a.name()
	key, body, refusal := wire.ReadKey(r, a.shared.keyHeaders, &a.route.policy, a.route.keyField)
	a.body = body
	if key == "" {
		return refusal
	}
	scope, err := a.scopeOf(r)
	if err != nil || scope == "" {
		refusal := problem.New(problem.PrincipalMissing, "")
		refusal.Challenge = ChallengeOf(err)
		return refusal
	}
	a.request.Scope, a.request.Key = scope, key
	a.digest = digestOf(a.shared.service, &a.request)
	return nil
}

// scopeOf calls the scope function. A panic is reported, and continues as a handler's
// panic does, because a failed authentication service is no 401.
func (a *attempt) scopeOf(r *http.Request) (string, error) {
	returned := false
	defer func() {
		if !returned {
			a.name()
			a.report(r.Context(), event.Event{Result: event.CallbackPanicked, Err: errors.New("oncekey: the Scope panicked")})
		}
	}()
	scope, err := a.shared.scope(r)
	returned = true
	return scope, err
}

// fingerprinted returns the input of the request's fingerprint.
func (a *attempt) fingerprinted(r *http.Request, body []byte) fingerprint.Request {
	contentType := ""
	if values := r.Header["Content-Type"]; len(values) > 0 { // Get would spell the name anew: 2 % of a replay
		contentType = values[0]
	}
	return fingerprint.Request{
		Method: r.Method, Path: a.request.Path, RawQuery: r.URL.RawQuery,
		ContentType: contentType, Body: body, Headers: a.route.includedHeaders(r.Header),
	}
}

func (a *attempt) report(ctx context.Context, happened event.Event) {
	happened.Record = a.recordName()
	a.identity.report(ctx, a.request.Pattern, happened)
}

// unread returns the attempt of a request without reading its header or body.
func unread(s *shared, r *http.Request, route *Route) *attempt {
	a := newAttempt(s, route)
	a.request.Method, a.request.Path, a.request.Pattern = r.Method, wire.RequestPath(r), r.Pattern
	a.name()
	return a
}
