package policy

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/oncekey/oncekey/failure"
)

// The defaults that New starts from.
const (
	DefaultTTL              = 24 * time.Hour
	DefaultLockTTL          = 30 * time.Second
	DefaultMaxRun           = 15 * time.Minute
	DefaultStoreTimeout     = 500 * time.Millisecond
	DefaultMaxRequestBytes  = 1 << 20
	DefaultMaxResponseBytes = 1 << 20
)

// Policy is what one route declared. Make it with New or Parse: the zero Policy
// is not valid. It must not be changed once it is in use; reading it is safe
// for concurrent use.
type Policy struct {
	// TTL is how long an answer is kept and replayed. Default 24 hours.
	TTL time.Duration
	// LockTTL bounds how long a crash blocks the key. The lease is renewed every
	// third of it while the handler runs, so it does not bound the handler.
	// Default 30 seconds.
	LockTTL time.Duration
	// Required refuses a request without a key. Default true; when false, such
	// a request runs unguarded.
	Required bool
	// ExcludeFields are left out of the fingerprint of JSON and form bodies, and
	// of the query: bare names at any depth, or paths like meta.trace.id. A body
	// whose Content-Type says neither counts as it stands. Default none.
	ExcludeFields []string
	// Methods are guarded; requests of other methods pass straight through.
	// Default POST and PATCH.
	Methods []string
	// OnStoreError says what happens while the store is unavailable. Default
	// FailClosed.
	OnStoreError StoreErrorMode
	// Wait is how long a concurrent duplicate waits for the answer before it is
	// turned away with 409. Default 0: it does not wait.
	Wait time.Duration
	// OnAbandoned says what happens to a key whose holder crashed. Default
	// Reexecute.
	OnAbandoned AbandonedMode
	// Transactional runs the handler in a transaction of the store, which must be a
	// storage.Transactor: what the handler writes there and its answer are committed
	// together, or not at all. Default false.
	Transactional bool
	// Observe only watches: every request runs its handler as if there were no
	// guard, and events say what the policy would have done. For rolling a policy
	// out. Default false.
	Observe bool
	// MaxRun is how long a handler may run: after that its context is cancelled
	// and its lease is renewed no more. Default 15 minutes.
	MaxRun time.Duration
	// MaxRequestBytes bounds the request body. Default 1 MiB.
	MaxRequestBytes int64
	// MaxResponseBytes bounds the answer that is kept. A larger one streams
	// through and cannot be replayed. Default 1 MiB.
	MaxResponseBytes int64
	// StoreTimeout bounds each step at the store. Default 500 milliseconds.
	StoreTimeout time.Duration
	// Free, Keep and Uncertain list response statuses, such as 422, and classes of
	// them, such as 5xx: the key is released, the response is kept, or the key is left
	// abandoned for OnAbandoned to decide. A status beats a class. A panic counts as
	// 500, a context that ended before there was a response as 503. The handler's
	// marks come first, and the Classifier is asked last. Default none.
	Free, Keep, Uncertain []string
	// Classifier replaces failure.Classify. Default nil: failure.Classify. It decides
	// where the handler has set no mark and no list has the status, and not about
	// the outcomes that OnAbandoned makes uncertain (see Classify).
	Classifier func(failure.Outcome) failure.Class
	// KeepHeaders are stored although they are not by default: Set-Cookie, Date.
	// Default none.
	KeepHeaders []string
}

// StoreErrorMode is what happens to a request while the store is unavailable.
type StoreErrorMode uint8

const (
	// FailClosed answers 503 and runs nothing. The default.
	FailClosed StoreErrorMode = iota
	// FailOpen runs the handler unprotected, and reports it.
	FailOpen
)

// String returns the mode's name as Parse reads it.
func (m StoreErrorMode) String() string {
	if m == FailOpen {
		return "FailOpen"
	}
	return "FailClosed"
}

// AbandonedMode is what happens to a key whose lease ran out unsettled: its
// holder crashed or was cut off, and whether the side effect happened, nobody
// knows. The values are Reexecute, Refuse, and what Recover returns.
type AbandonedMode struct {
	refuse   bool
	recovers bool
	recover  RecoverFunc
}

var (
	// Reexecute lets the next retry run the handler, with a higher attempt number.
	// The default.
	Reexecute = AbandonedMode{}
	// Refuse answers 409 outcome_unknown until the record expires.
	Refuse = AbandonedMode{refuse: true}
)

// Recover asks the given function what became of the abandoned attempt. Validate
// refuses a nil function.
func Recover(find RecoverFunc) AbandonedMode { return AbandonedMode{recovers: true, recover: find} }

// Refuses reports whether an abandoned key is never run again.
func (m AbandonedMode) Refuses() bool { return m.refuse }

// RecoverFunc returns the function given to Recover, or nil.
func (m AbandonedMode) RecoverFunc() RecoverFunc { return m.recover }

// String returns the mode's name: Reexecute, Refuse or Recover.
func (m AbandonedMode) String() string {
	switch {
	case m.recovers:
		return "Recover"
	case m.refuse:
		return "Refuse"
	default:
		return "Reexecute"
	}
}

// RecoverFunc asks the outside world (a payment provider, the team's own
// tables) what became of an abandoned attempt. It runs under the lease, with
// the handler's context: one caller at a time, in all processes.
//
//   - An Answer is stored and replayed; the handler does not run.
//   - Nil and nil: nothing happened; the handler runs.
//   - An error: nobody knows. The client gets 409 outcome_unknown, and the next
//     retry asks again.
type RecoverFunc func(ctx context.Context, abandoned Abandoned) (*Answer, error)

// Abandoned is the attempt that a RecoverFunc is asked about.
type Abandoned struct {
	// Key is the client's idempotency key, Scope whose it is.
	Key, Scope string
	// Method and Path are the request's.
	Method, Path string
	// Attempt is the number of the attempt that begins now.
	Attempt uint64
}

// Answer is the response to an attempt that turned out to have happened.
type Answer struct {
	// Status from 200 to 999.
	Status int
	Header http.Header
	Body   []byte
}

// Guards reports whether requests of this method are guarded.
func (p *Policy) Guards(method string) bool { return slices.Contains(p.Methods, method) }

// Keeps reports whether a response header field of this name is stored: not one that
// belongs to one connection, and Date and Set-Cookie only if KeepHeaders has them.
func (p *Policy) Keeps(name string) bool {
	name = http.CanonicalHeaderKey(name)
	if name != "Date" && name != "Set-Cookie" {
		return !belongsToConnection(name)
	}
	return slices.ContainsFunc(p.KeepHeaders, func(keep string) bool { return http.CanonicalHeaderKey(keep) == name })
}

// connectionHeaders are those of RFC 9110, section 7.6.1, and RFC 2616, section
// 13.5.1. Trailer is not among them, because net/http writes a response's trailers
// anew from it.
var connectionHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Transfer-Encoding", "Upgrade",
}

func belongsToConnection(name string) bool {
	return slices.Contains(connectionHeaders, http.CanonicalHeaderKey(name))
}

// Classify returns the class of an outcome. The handler's marks decide first, then the
// lists Free, Keep and Uncertain. Where OnAbandoned is Refuse or Recover, a panic, an
// ended context and every 5xx are uncertain: a policy that declares a rule for unknown
// outcomes means all of them. The Classifier decides about all others.
func (p *Policy) Classify(o failure.Outcome) failure.Class {
	if o.Marked() {
		return failure.Classify(o)
	}
	status := countedStatus(o)
	if class, listed := p.listed(status); listed {
		return class
	}
	switch {
	case status >= http.StatusInternalServerError && (p.OnAbandoned.refuse || p.OnAbandoned.recovers):
		return failure.ClassUncertain
	case p.Classifier != nil:
		return p.Classifier(o)
	default:
		return failure.Classify(o)
	}
}
