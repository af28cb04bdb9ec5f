package core

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/internal/guarded"
)

// Request identifies a request for the engine.
type Request struct {
	// Scope names the principal, Method and Path the operation, Key the client's
	// intent. All four together name the record. Where the policy has a KeyAge, the key is
	// a UUID of version 7 or a ULID.
	Scope, Method, Path, Key string
	// Fingerprint tells a retry from another request under the same key: UTF-8 without NUL, as hex digits.
	Fingerprint string
	// Pattern is the declared pattern of the route, for events. Empty means unknown.
	Pattern string
}

// identity is the request or call of a run, with its policy. Unlike the attempt, it
// outlives the decision: runs, events and store calls keep it.
type identity struct {
	event   event.Subject
	route   *Route
	request Request
	digest  [sha256.Size]byte   // the storage key
	wasRead bool                // the request was read, and its events name its record
	tooOld  bool                // the key is older than the policy's KeyAge
	record  string              // the storage key in hex digits, on first use
	started time.Duration       // when the request was admitted, after shared.began
	call    lazycontext.Context // for the first store call
	shared  *shared
}

// name sets the subject of the request's events.
func (i *identity) name() {
	r := &i.request
	i.event = event.About(r.Method, r.Path, r.Scope, r.Key, i.shared.instance)
}

// address names the request, and sets the bytes of its storage key.
func (i *identity) address() {
	i.name()
	i.digest = digestOf(i.shared.service, &i.request)
}

// sameRequest is the context key of the route that guards or observes this request: the
// context of a guarded or observed request has a value only under an equal digest.
type sameRequest identity

// outside returns the route of an outer policy that already guards or observes this
// request, or nil.
func (i *identity) outside(ctx context.Context) *Route {
	route, _ := guarded.Value(ctx, (*sameRequest)(i)).(*Route)
	return route
}

// digestOf returns the bytes of a storage key, as storage.Key spells it. The name of a
// service is a further part.
func digestOf(service string, r *Request) [sha256.Size]byte {
	if service == "" {
		return frame.Sum(r.Scope, r.Method, r.Path, r.Key)
	}
	return frame.Sum(service, r.Scope, r.Method, r.Path, r.Key)
}

// report reports an event about the request, or about its run, which knows the pattern.
func (i *identity) report(ctx context.Context, happened *event.Event) {
	if happened.Route != i.request.Pattern { // not the pattern of an event before
		happened.Route = cmp.Or(happened.Route, i.request.Pattern)
		i.route.served(i.request.Method, happened.Route)
	}
	if i.wasRead && i.record == "" {
		var digits [2 * sha256.Size]byte
		i.record = string(hex.AppendEncode(digits[:0], i.digest[:]))
	}
	happened.Subject, happened.Record, happened.Observed = &i.event, i.record, i.route.observes
	happened.Duration = time.Since(i.shared.began) - i.started
	i.shared.observer.Observe(ctx, happened)
}

// limitedScope returns the hash by which the store counts the keys of a scope. Observed keys
// count apart, because a route that only observes must not fill the limit of the others.
func limitedScope(i *identity) string {
	sum := frame.Sum("scope limit", strconv.FormatBool(i.route.observes), i.shared.service, i.request.Scope)
	return hex.EncodeToString(sum[:])
}
