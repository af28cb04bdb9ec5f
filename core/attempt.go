package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/panicked"
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
	storageKey string               // the digest in hex digits, on first use: see recordName
	keyHash    string               // event.KeyHash of the key, beside the fingerprint
	input      fingerprint.Request  // until the decision; its Body is set early where the policy has a KeyField
	bytes      storage.Digest       // of the input; zero when the caller of Begin passed the fingerprint
	reading    *fingerprint.Reading // of the input, on first use: see parsed
	sketch     []byte               // of the first request with the key, if this request differs
	failure    error                // of the store, for the event of the decision
	found      *storage.Record      // the last record that decided
	waited     bool                 // the key was in progress in an earlier round
	waits      bool                 // the request is counted in shared.waiters
	alloc      func() *Run          // makes the run; nil: new(Run)
	claim      ledger.Claim         // in place: passed on by value it would grow the stack beyond 8 KiB
}

// newAttempt begins the attempt of a request.
func newAttempt(s *shared, route *Route) *attempt {
	return &attempt{identity: &identity{shared: s, route: route, started: time.Now()}}
}

// read sets the input of the fingerprint, and computes the digest of its bytes. The
// request's body must not change before the decision.
func (a *attempt) read(input fingerprint.Request) {
	a.input, a.bytes = input, fingerprint.Digest(input)
}

// recordName returns the storage key, or "" before read and Begin.
func (a *attempt) recordName() string {
	if a.storageKey == "" && a.bytes != (storage.Digest{}) {
		var digits [2 * sha256.Size]byte
		a.storageKey = string(hex.AppendEncode(digits[:0], a.digest[:]))
	}
	return a.storageKey
}

// fingerprint returns the request's fingerprint. The canonical walk takes half as long
// as a whole replay, so it waits for the first request that is no retry by its bytes.
// One string holds the storage key, the hash of the client's key and the fingerprint,
// which saves two allocations for each first-time request.
func (a *attempt) fingerprint() string {
	if a.request.Fingerprint == "" && a.bytes != (storage.Digest{}) {
		a.parsed()
		var buffer [hashesSize + fingerprint.Size]byte
		hashes := frame.AppendShort(hex.AppendEncode(buffer[:0], a.digest[:]), a.request.Key)
		names := string(a.reading.AppendFingerprint(hashes))
		a.storageKey, a.keyHash, a.request.Fingerprint = names[:2*sha256.Size], names[2*sha256.Size:hashesSize], names[hashesSize:]
	}
	return a.request.Fingerprint
}

// parsed returns the parsed input. A request that has waited parses it again, because it
// keeps no parse while it waits. parsed returns nil when the caller of Begin passed only
// the fingerprint.
func (a *attempt) parsed() *fingerprint.Reading {
	if a.reading == nil && a.bytes != (storage.Digest{}) {
		a.reading = fingerprint.Read(a.input, a.route.exclusion)
	}
	return a.reading
}

// closeReading drops the parsed input.
func (a *attempt) closeReading() {
	if a.reading != nil {
		a.reading.Close()
		a.reading = nil
	}
}

// hashesSize is the length of a storage key and the hash of a client's key.
const hashesSize = 2*sha256.Size + frame.ShortSize

// repeats reports whether the request is a retry of the record's request. Equal bytes
// need no fingerprint.
func (a *attempt) repeats(record *storage.Record) bool {
	return a.bytes.Repeats(record.Digest) || a.fingerprint() == record.Fingerprint
}

// forget drops the request's body, because events outlive the request.
func (a *attempt) forget() {
	a.closeReading()
	a.input = fingerprint.Request{}
}

// identify sets the request's key, scope and storage key, or returns a problem. Where
// the policy requires no key, a.request.Key may stay empty.
func (a *attempt) identify(r *http.Request) *problem.Problem {
	a.request.Method, a.request.Path, a.request.Pattern = r.Method, wire.RequestPath(r), r.Pattern
	defer a.name()
	key, body, refusal := wire.ReadKey(r, a.shared.keyHeaders, &a.route.policy, a.route.keyField)
	a.input.Body = body
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

func (a *attempt) report(ctx context.Context, event event.Event) {
	event.Subject, event.Route, event.Observed, event.Record = &a.event, a.request.Pattern, a.route.observes, a.recordName()
	a.route.served(a.request.Method, a.request.Pattern)
	event.Duration = time.Since(a.started)
	a.shared.observer.Observe(ctx, event)
}

// unread returns the attempt of a request without reading its header or body.
func unread(s *shared, r *http.Request, route *Route) *attempt {
	a := newAttempt(s, route)
	a.request.Method, a.request.Path, a.request.Pattern = r.Method, wire.RequestPath(r), r.Pattern
	a.name()
	return a
}

// origin returns the origin of a claim. The router may find the pattern later: see
// ledger.Hold.
func (a *attempt) origin(ctx context.Context) storage.Origin {
	origin := storage.Origin{Route: ledger.Shortened(a.request.Pattern, ledger.MaxOriginRoute), Holder: a.shared.holder, KeyHash: a.keyHash}
	if a.shared.trace != nil {
		origin.Trace = a.traceOf(ctx)
	}
	return origin
}

// traceOf calls the function of WithTrace.
func (a *attempt) traceOf(ctx context.Context) (trace string) {
	defer func() {
		if err := panicked.Error("Trace", recover()); err != nil {
			a.report(ctx, event.Event{Result: event.CallbackPanicked, Err: err})
		}
	}()
	return ledger.Shortened(a.shared.trace(ctx), ledger.MaxOriginText)
}
