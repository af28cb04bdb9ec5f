package core

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
)

// Request is what the engine knows a request by.
type Request struct {
	// Scope names the principal, Method and Path the operation, Key the client's
	// intent. Together they name the record.
	Scope, Method, Path, Key string
	// Fingerprint tells a retry from another request under the same key.
	Fingerprint string
	// Pattern names the route in events: the pattern it was declared with.
	// Empty when it is not known.
	Pattern string
}

// subject is the request or call that a run is about, and the policy that guards it.
type subject struct {
	event   event.Subject
	route   *Route
	request Request
	digest  [sha256.Size]byte // the storage key
}

// know takes down which request this is.
func (e *Engine) setRequest(a *admission, r Request) {
	a.request = r
	a.event = event.About(r.Method, r.Path, r.Scope, r.Key, e.instance)
}

// admission is one request on its way to a decision.
type admission struct {
	subject
	started      time.Time
	storageKey   string
	reading      *fingerprint.Reading // until it is decided; nil when the caller of Begin has the fingerprint
	sketch       []byte               // of the request that this one differs from
	bytes        storage.Digest       // of the request as it arrived; zero when the caller of Begin has the fingerprint
	call         lazycontext.Context  // of the first call at the store
	called       bool
	waited       bool   // the key was in progress when the store was asked before
	served       bool   // the run is an HTTP handler's, behind a capture
	claimed      moment // when the store was asked: no lease of its began before
	storeLatency time.Duration
}

// read reads the request, and spells the two names by which the store knows it: its
// storage key and its fingerprint, in one string.
func (a *admission) read(request fingerprint.Request) {
	a.reading, a.bytes = fingerprint.Read(request, a.route.exclusion), fingerprint.Digest(request)
	var names [2*sha256.Size + fingerprint.Size]byte
	digits := hex.AppendEncode(names[:0], a.digest[:])
	both := string(a.reading.AppendFingerprint(digits))
	a.storageKey, a.request.Fingerprint = both[:len(digits)], both[len(digits):]
}

// repeats reports whether the request is the one that the record was made by.
func (a *admission) repeats(record *storage.Record) bool {
	claim := storage.Claim{Fingerprint: a.request.Fingerprint, Digest: a.bytes}
	return claim.Repeats(record.Fingerprint, record.Digest)
}

// forget lets go of the request's body: events outlive the request.
func (a *admission) forget() {
	if a.reading != nil {
		a.reading.Close()
		a.reading = nil
	}
}

// identify finds out whose key the request carries, and to what it belongs.
// Without a key, and without need of one, a.request.Key stays empty.
func (e *Engine) identify(r *http.Request, a *admission) *problem.Problem {
	e.setRequest(a, Request{Method: r.Method, Path: requestPath(r), Pattern: r.Pattern})
	key, err := keyFromHeader(r.Header)
	switch {
	case errors.Is(err, errKeyMissing) && !a.route.policy.Required:
		return nil
	case errors.Is(err, errKeyMissing):
		return problem.New(problem.KeyMissing, err.Error())
	case err != nil:
		return problem.New(problem.KeyInvalid, err.Error())
	}
	scope, err := e.scopeOf(r, a)
	if err != nil || scope == "" {
		refusal := problem.New(problem.PrincipalMissing, "")
		refusal.Challenge = challengeOf(err)
		return refusal
	}
	request := a.request
	request.Scope, request.Key = scope, key
	e.setRequest(a, request)
	a.digest = e.digest(&a.request)
	return nil
}

// scopeOf asks the scope function. Its panic is reported, and goes on as a handler's
// does: authentication that broke down is no 401.
func (e *Engine) scopeOf(r *http.Request, a *admission) (string, error) {
	returned := false
	defer func() {
		if !returned {
			e.report(r.Context(), a, event.Event{Result: event.CallbackPanicked, Err: errors.New("oncekey: the Scope panicked")})
		}
	}()
	scope, err := e.scope(r)
	returned = true
	return scope, err
}

// fingerprinted is what the request's fingerprint is taken of.
func (a *admission) fingerprinted(r *http.Request, body []byte) fingerprint.Request {
	return fingerprint.Request{
		Method: r.Method, Path: a.request.Path, RawQuery: r.URL.RawQuery,
		ContentType: r.Header.Get("Content-Type"), Body: body,
	}
}

// requestPath returns the path that names the request's resource. It is the path
// that the client asked for where middleware has only stripped a prefix of it, so
// that two mounts of one handler stay two resources. Any other URL.Path counts by
// itself: a handler has made a sub-request, or middleware has rewritten the path.
func requestPath(r *http.Request) string {
	path := canonicalPath(r.URL)
	if target, _, _ := strings.Cut(r.RequestURI, "?"); target != path {
		if u, err := url.ParseRequestURI(target); err == nil { // in the absolute form as well
			if whole := canonicalPath(u); strings.HasSuffix(whole, path) {
				path = whole
			}
		}
	}
	if path == "" { // RFC 9110, section 4.2.3
		return "/"
	}
	return path
}

// canonicalPath returns the path by which a resource is known: equal spellings
// of a path are one, but an escaped slash stays different from a slash. It splits
// RawPath itself, because URL.EscapedPath drops a RawPath that has characters
// which it would have escaped.
func canonicalPath(u *url.URL) string {
	if u.RawPath == "" {
		return strings.ReplaceAll(u.Path, "%", "%25")
	}
	if plain, err := url.PathUnescape(u.RawPath); err != nil || plain != u.Path {
		return strings.ReplaceAll(u.Path, "%", "%25") // only Path was rewritten
	}
	segments := strings.Split(u.RawPath, "/")
	for i, segment := range segments {
		plain, _ := url.PathUnescape(segment) // the whole of them could be
		segments[i] = strings.NewReplacer("%", "%25", "/", "%2F").Replace(plain)
	}
	return strings.Join(segments, "/")
}

// StorageKey returns the name under which this engine stores a record: that of
// storage.Key, with the service's name (see WithService) as a part of it.
func (e *Engine) StorageKey(scope, method, path, key string) string {
	digest := e.digest(&Request{Scope: scope, Method: method, Path: path, Key: key})
	return hex.EncodeToString(digest[:])
}

// digest is the storage key of a request's record, before it is spelled. Without a
// service the name is that of the versions before services.
func (e *Engine) digest(r *Request) [sha256.Size]byte {
	if e.service == "" {
		return frame.Sum(r.Scope, r.Method, r.Path, r.Key)
	}
	return frame.Sum(e.service, r.Scope, r.Method, r.Path, r.Key)
}

// The commonest mismatch is an honest retry with a new timestamp. To say which
// member it was, a finished record keeps a sketch of its request: short hashes,
// keyed by what the store does not know, the idempotency key itself.

// differences names what differs from the request that has the key: the other run's
// in this process, or the one that the record was made by. Of a request that is
// in flight elsewhere nothing is known.
func (a *admission) differences(localRun *Run) (names []string, others, missing int) {
	if a.sketch == nil && localRun != nil {
		a.sketch = localRun.sketch
	}
	if a.reading == nil { // who calls Begin has the fingerprint alone
		return nil, 0, 0
	}
	return a.reading.Differences(a.sketch, a.sketchKey())
}

// sketchKey is secret from whoever can read the store, as far as the idempotency
// key cannot be guessed: the storage key is another hash of that, and makes this one
// another for every scope and route.
func (s *subject) sketchKey() (key [16]byte) {
	sum := frame.Sum("sketch", string(s.digest[:]), s.request.Key)
	copy(key[:], sum[:])
	return key
}
