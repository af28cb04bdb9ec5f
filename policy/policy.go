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

// KeyClockTolerance is the time by which the clock of a client may be ahead, on a route
// with a KeyAge.
const KeyClockTolerance = 5 * time.Minute

// Policy holds the settings of one route. Make it with New or Parse: the zero
// Policy is not valid. Do not change a Policy in use; concurrent reads are safe.
type Policy struct {
	// TTL is the time for which a response is stored and replayed. Default 24 hours.
	TTL time.Duration
	// Remember is the time after TTL for which the store remembers the key without its
	// response. A retry in that time gets 409 key_expired, and no handler runs. A key
	// that was left abandoned gets 409 outcome_unknown. Default 0: after TTL the key is
	// new, and a late retry runs the handler again.
	Remember time.Duration
	// LockTTL is the length of a lease: the longest time for which a crashed process
	// blocks the key. The engine renews the lease every LockTTL/3 while the handler
	// runs, so LockTTL does not bound the handler. Default 30 seconds.
	LockTTL time.Duration
	// Required refuses a request without a key. If false, such a request runs
	// unguarded. Default true.
	Required bool
	// KeyField is the member of a JSON body that holds the key: a name at the root, or a
	// path like meta.request_id, in the notation of ExcludeFields without stars. The
	// value is a string or a number. A request whose header has another key is refused,
	// and a header alone is not enough. Default "": the header holds the key.
	KeyField string
	// KeyFormat refuses keys of another format: UUIDKey, or a KeyPattern. Default: every
	// key of 1 to 255 visible ASCII characters.
	KeyFormat KeySyntax
	// KeyAge is the age from which on a key without a record is refused: the request gets
	// 409 key_expired, and no handler runs, also where OnStoreError is FailOpen. The store
	// keeps nothing for it, so late retries are refused for ever. A record decides as
	// without KeyAge.
	//
	// The key tells its age itself, as a UUID of version 7 (RFC 9562, section 5.7) or a
	// ULID. For any other key the header Repeatability-First-Sent does (OASIS Repeatable
	// Requests Version 1.0). A request with neither, and one from more than
	// KeyClockTolerance in the future, is 400 key_invalid. From 1 minute to TTL with
	// Remember, less KeyClockTolerance: a longer KeyAge would let a late retry run between
	// the end of its record and KeyAge. Default 0: the age of a key does not count.
	KeyAge time.Duration
	// SkipIf reports whether a request runs unguarded, for example a dry run. The engine
	// calls it before it reads the key, the scope or the body, and SkipIf must not read
	// the body. It must be safe for concurrent use. Default nil: no request is skipped.
	SkipIf func(*http.Request) bool
	// ExcludeFields are left out of the fingerprint of the query and of JSON and
	// form bodies: bare names at any depth, or paths like meta.trace.id. A dot before a name
	// (.context) means the root of a JSON body alone. A dot of a name is written \. as in
	// gorilla\.csrf\.Token. Names match as encoding/json matches them, in any case. Bodies
	// with another Content-Type are fingerprinted byte by byte. Default none.
	ExcludeFields []string
	// IncludeFields are the only fields of a JSON or form body that count in the
	// fingerprint, in the notation of ExcludeFields. A body without any of them counts as
	// a whole, and so does every other body. The query counts always. Do not set both
	// lists. Default none: all fields count.
	IncludeFields []string
	// IncludeHeaders are request headers that count in the fingerprint, such as
	// X-Api-Version. Default none.
	IncludeHeaders []string
	// ExactBytes makes every byte of the query and of the body count: another spelling of
	// the same JSON is another payload, and a 422 names no members. There is no canonical
	// form to compute, so a first request is cheaper. Do not set it beside ExcludeFields or
	// IncludeFields. Default false.
	ExactBytes bool
	// Methods are guarded; requests of other methods pass straight through.
	// Default POST and PATCH.
	Methods []string
	// OnStoreError decides about requests while the store is unavailable. Default
	// FailClosed.
	OnStoreError StoreErrorMode
	// Wait is the time for which a concurrent duplicate waits for the response. The
	// client gets a 409 after that time, or at once while 128 requests wait for the key
	// or 1,024 in the process. Default 0: a duplicate does not wait.
	Wait time.Duration
	// OnAbandoned decides about a key whose holder crashed, or whose run was uncertain. Default Reexecute.
	OnAbandoned AbandonedMode
	// Transactional runs the handler in a transaction of the store, which must be a
	// storage.Transactor. The handler's writes in the transaction and the stored
	// response are committed together or not at all. Default false.
	Transactional bool
	// ObserveOnly runs every handler as if the route were unguarded. Events report the
	// policy's decision. Use it to roll a policy out. Default false.
	ObserveOnly bool
	// MaxRun is the longest run of a handler. The engine then cancels the handler's
	// context and stops renewing the lease. Default 15 minutes.
	MaxRun time.Duration
	// MaxRequestBytes bounds the request body. Default 1 MiB. A body of known length takes
	// at most 2.5 times its length and 256 KiB in memory.
	MaxRequestBytes int64
	// MaxResponseBytes bounds a stored response: its body, and the fields of its header. A
	// larger response cannot be replayed, and a larger body streams to the client. Default
	// 1 MiB. The steps of a request (core.Step) have the same bound together.
	MaxResponseBytes int64
	// StoreTimeout bounds each operation of the store. Default 500 milliseconds.
	StoreTimeout time.Duration
	// Release, Keep and Uncertain list response statuses, such as 422, and classes of
	// them, such as 5xx: the key is released, the response is kept, or the key is left
	// abandoned for OnAbandoned to decide. A status beats a class. A panic counts as
	// 500, a context that ended before there was a response as 503. The handler's
	// marks decide before the lists, and the lists before the Classifier. Default none.
	Release, Keep, Uncertain []string
	// Classifier replaces failure.Classify. Default nil: failure.Classify. It decides
	// where the handler has set no mark and no list has the status, and not about
	// the outcomes that OnAbandoned makes uncertain (see Classify). It must be safe for
	// concurrent use.
	Classifier func(failure.Outcome) failure.Class
	// RedactFields are omitted from the stored response, such as a secret that is shown
	// once, in the notation of ExcludeFields. The first response is complete, and a
	// replay names the omitted fields in X-Idempotent-Redacted. Only JSON bodies are
	// redacted: any other body is stored as it is. Default none.
	RedactFields []string
	// KeepHeaders stores header fields that are left out by default: Set-Cookie and
	// Date. Default none.
	KeepHeaders []string
}

// Option sets one field of a Policy. A later option overrides an earlier one.
type Option func(*Policy)

// StoreErrorMode decides about a request while the store is unavailable.
type StoreErrorMode uint8

const (
	// FailClosed responds with 503 and runs no handler. The default.
	FailClosed StoreErrorMode = iota
	// FailOpen runs the handler unguarded, and reports an event.
	FailOpen
)

// String returns the mode's name as Parse reads it.
func (m StoreErrorMode) String() string {
	if m == FailOpen {
		return "FailOpen"
	}
	return "FailClosed"
}

// AbandonedMode decides about an abandoned key: its lease ended before the response was
// stored, because the holder crashed or lost the store, or because its run was uncertain
// (failure.MarkUncertain). The side effect may or may not have happened. The values are
// Reexecute, Refuse and Recover's result.
type AbandonedMode struct {
	refuse   bool
	recovers bool
	recover  RecoverFunc
}

var (
	// Reexecute lets the next retry run the handler, with a higher attempt number.
	// The default.
	Reexecute = AbandonedMode{}
	// Refuse responds with 409 outcome_unknown until the record expires.
	Refuse = AbandonedMode{refuse: true}
)

// Recover calls find to learn the outcome of the abandoned attempt. Validate refuses
// a nil function.
func Recover(find RecoverFunc) AbandonedMode { return AbandonedMode{recovers: true, recover: find} }

// Refuses reports whether the handler never runs again for an abandoned key.
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

// RecoverFunc looks up the outcome of an abandoned attempt, for example at a
// payment provider or in the team's own tables. The engine calls it under the
// lease, with the handler's context: for each key one call at a time, in all
// processes. It must be safe for concurrent use.
//
//   - A Response: the engine stores and replays it. The handler does not run.
//   - Nil and nil: the attempt had no side effect. The handler runs, unless ctx has
//     ended: that counts as an error.
//   - An error: the outcome is still unknown. The client gets 409 outcome_unknown with
//     Retry-After, and the next retry calls the function again.
type RecoverFunc func(ctx context.Context, abandoned Abandoned) (*Response, error)

// Abandoned describes the abandoned attempt to a RecoverFunc.
type Abandoned struct {
	// Key is the client's idempotency key. Scope is the scope of the key.
	Key, Scope string
	// Method and Path of the request.
	Method, Path string
	// Attempt is the number of the attempt that starts now.
	Attempt uint64
	// Step names the step that was cut off (core.Step): its function was called, and
	// its result is not recorded. Empty when no step was cut off. Of several, the last
	// that began.
	Step string
}

// Response is the response for an abandoned attempt whose side effect happened. The engine keeps
// its Header and Body: do not change them.
type Response struct {
	// Status from 200 to 999.
	Status int
	Header http.Header
	Body   []byte
}

// Guards reports whether requests of this method are guarded.
func (p *Policy) Guards(method string) bool { return slices.Contains(p.Methods, method) }

// KeepsHeader reports whether a response header field of this name is stored. Hop-by-hop
// fields are never stored, Date and Set-Cookie only if KeepHeaders names them.
func (p *Policy) KeepsHeader(name string) bool {
	name = http.CanonicalHeaderKey(name)
	if name != "Date" && name != "Set-Cookie" {
		return !belongsToConnection(name)
	}
	return slices.ContainsFunc(p.KeepHeaders, func(keep string) bool { return http.CanonicalHeaderKey(keep) == name })
}

// belongsToConnection reports whether the canonical name is one of the hop-by-hop fields
// of RFC 9110, section 7.6.1, and RFC 2616, section 13.5.1. Trailer is kept, because
// net/http needs the field to write the trailers of a replayed response.
func belongsToConnection(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Transfer-Encoding", "Upgrade":
		return true
	default:
		return false
	}
}

// Classify returns the class of an outcome. The handler's marks decide first, then the
// lists Release, Keep and Uncertain. Where OnAbandoned is Refuse or Recover, a panic, an
// ended context and every 5xx are uncertain: a policy that declares a rule for unknown
// outcomes means all of them. The Classifier decides about all others, and failure.Classify
// where the Classifier returns a Class that does not exist.
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
		if class := p.Classifier(o); class <= failure.ClassUncertain {
			return class
		}
	}
	return failure.Classify(o)
}
