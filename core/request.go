package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
)

// Request identifies a request for the engine.
type Request struct {
	// Scope names the principal, Method and Path the operation, Key the client's
	// intent. All four together name the record.
	Scope, Method, Path, Key string
	// Fingerprint tells a retry from another request under the same key.
	Fingerprint string
	// Pattern is the declared pattern of the route, for events. Empty means unknown.
	Pattern string
}

// subject is the request or call of a run, with its policy. Unlike the admission, it
// outlives the decision: runs, events and store calls keep it.
type subject struct {
	event    event.Subject
	route    *Route
	request  Request
	digest   [sha256.Size]byte   // the storage key
	started  time.Time           // when the request was admitted
	call     lazycontext.Context // for the first store call
	observer event.Observer
}

// setSubject sets the subject of the request's events.
func (e *Engine) setSubject(a *admission) {
	r := &a.request
	a.event, a.observer = event.About(r.Method, r.Path, r.Scope, r.Key, e.instance), e.observer
}

// admission is one request before the engine has decided about it. No other goroutine and
// no later code keeps an admission, so it stays on the stack: a replay allocates a quarter
// less, and a first-time request 7 % less (TestAllocations).
type admission struct {
	*subject
	storageKey string               // the digest in hex digits, on first use: see recordName
	keyHash    string               // event.KeyHash of the key, beside the fingerprint
	input      fingerprint.Request  // until the decision; its Body is set early where the policy has a KeyField
	bytes      storage.Digest       // of the input; zero when the caller of Begin passed the fingerprint
	reading    *fingerprint.Reading // of the input, on first use: see parsed
	sketch     []byte               // of the first request with the key, if this request differs
	failure    error                // of the store, for the event of the decision
	found      *storage.Record      // the last record that decided
	waited     bool                 // the key was in progress in an earlier round
	waits      bool                 // the request is counted in Engine.waiters
	served     bool                 // the run belongs to an HTTP handler, behind a capture
	claim      ledger.Claim         // in place: passed on by value it would grow the stack beyond 8 KiB
}

// admit begins the admission of a request.
func admit(route *Route) *admission {
	return &admission{subject: &subject{route: route, started: time.Now()}}
}

// read sets the input of the fingerprint, and computes the digest of its bytes. The
// request's body must not change before the decision.
func (a *admission) read(input fingerprint.Request) {
	a.input, a.bytes = input, fingerprint.Digest(input)
}

// recordName returns the storage key, or "" before read and Begin.
func (a *admission) recordName() string {
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
func (a *admission) fingerprint() string {
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
func (a *admission) parsed() *fingerprint.Reading {
	if a.reading == nil && a.bytes != (storage.Digest{}) {
		a.reading = fingerprint.Read(a.input, a.route.exclusion)
	}
	return a.reading
}

// closeReading drops the parsed input.
func (a *admission) closeReading() {
	if a.reading != nil {
		a.reading.Close()
		a.reading = nil
	}
}

// hashesSize is the length of a storage key and the hash of a client's key.
const hashesSize = 2*sha256.Size + frame.ShortSize

// repeats reports whether the request is a retry of the record's request. Equal bytes
// need no fingerprint.
func (a *admission) repeats(record *storage.Record) bool {
	return a.bytes.Repeats(record.Digest) || a.fingerprint() == record.Fingerprint
}

// forget drops the request's body, because events outlive the request.
func (a *admission) forget() {
	a.closeReading()
	a.input = fingerprint.Request{}
}

// identify sets the request's key, scope and storage key, or returns a problem. Where
// the policy requires no key, a.request.Key may stay empty.
func (e *Engine) identify(r *http.Request, a *admission) *problem.Problem {
	a.request.Method, a.request.Path, a.request.Pattern = r.Method, wire.RequestPath(r), r.Pattern
	defer e.setSubject(a)
	key, body, refusal := wire.ReadKey(r, e.keyHeaders, &a.route.policy, a.route.keyField)
	a.input.Body = body
	if key == "" {
		return refusal
	}
	scope, err := e.scopeOf(r, a)
	if err != nil || scope == "" {
		refusal := problem.New(problem.PrincipalMissing, "")
		refusal.Challenge = ChallengeOf(err)
		return refusal
	}
	a.request.Scope, a.request.Key = scope, key
	a.digest = e.digest(&a.request)
	return nil
}

// skips calls the policy's SkipIf, and reports a request that it skips. A panic is
// reported, and continues as the Scope's does.
func (e *Engine) skips(r *http.Request, route *Route) bool {
	happened := event.Event{Result: event.CallbackPanicked, Err: errors.New("oncekey: the SkipIf panicked")}
	skip := true // until SkipIf has returned
	defer func() {
		if skip {
			e.report(r.Context(), e.unread(r, route), happened)
		}
	}()
	if skip = route.policy.SkipIf(r); skip {
		happened = event.Event{Result: event.Skipped}
	}
	return skip
}

// scopeOf calls the scope function. A panic is reported, and continues as a handler's
// panic does, because a failed authentication service is no 401.
func (e *Engine) scopeOf(r *http.Request, a *admission) (string, error) {
	returned := false
	defer func() {
		if !returned {
			e.setSubject(a)
			e.report(r.Context(), a, event.Event{Result: event.CallbackPanicked, Err: errors.New("oncekey: the Scope panicked")})
		}
	}()
	scope, err := e.scope(r)
	returned = true
	return scope, err
}

// fingerprinted returns the input of the request's fingerprint.
func (a *admission) fingerprinted(r *http.Request, body []byte) fingerprint.Request {
	contentType := ""
	if values := r.Header["Content-Type"]; len(values) > 0 { // Get would spell the name anew: 2 % of a replay
		contentType = values[0]
	}
	return fingerprint.Request{
		Method: r.Method, Path: a.request.Path, RawQuery: r.URL.RawQuery,
		ContentType: contentType, Body: body, Headers: a.route.includedHeaders(r.Header),
	}
}

// includedHeaders returns the fields of the policy's IncludeHeaders.
func (r *Route) includedHeaders(h http.Header) (fields []fingerprint.HeaderField) {
	for _, name := range r.headers {
		for _, value := range h[name] {
			fields = append(fields, fingerprint.HeaderField{Name: name, Value: value})
		}
	}
	return fields
}

// canonicalNames returns header names sorted, so that their order in a policy does not
// count, and each once.
func canonicalNames(names []string) []string {
	canonical := make([]string, 0, len(names))
	for _, name := range names {
		canonical = append(canonical, http.CanonicalHeaderKey(name))
	}
	slices.Sort(canonical)
	return slices.Compact(canonical)
}

// StorageKey returns the storage key of a record of this engine: storage.Key with the
// service's name (see WithService) as a further part.
func (e *Engine) StorageKey(scope, method, path, key string) string {
	digest := e.digest(&Request{Scope: scope, Method: method, Path: path, Key: key})
	return hex.EncodeToString(digest[:])
}

// digest returns the bytes of a storage key. Without a service name, the storage key is
// the same as in versions before WithService.
func (e *Engine) digest(r *Request) [sha256.Size]byte {
	if e.service == "" {
		return frame.Sum(r.Scope, r.Method, r.Path, r.Key)
	}
	return frame.Sum(e.service, r.Scope, r.Method, r.Path, r.Key)
}

// sketchKey returns the key of the sketch's hashes. A reader of the store can compute
// it only by guessing the idempotency key. The storage key, another hash of that key,
// is mixed in so that every scope and route has a different sketch key.
func (s *subject) sketchKey() (key [16]byte) {
	sum := frame.Sum("sketch", string(s.digest[:]), s.request.Key)
	copy(key[:], sum[:])
	return key
}

func (e *Engine) report(ctx context.Context, a *admission, event event.Event) {
	event.Subject, event.Route, event.Observed, event.Record = &a.event, a.request.Pattern, a.route.observes, a.recordName()
	a.route.served(a.request.Method, a.request.Pattern)
	event.Duration = time.Since(a.started)
	a.observer.Observe(ctx, event)
}

// unread returns the admission of a request without reading its header or body.
func (e *Engine) unread(r *http.Request, route *Route) *admission {
	a := admit(route)
	a.request.Method, a.request.Path, a.request.Pattern = r.Method, wire.RequestPath(r), r.Pattern
	e.setSubject(a)
	return a
}
