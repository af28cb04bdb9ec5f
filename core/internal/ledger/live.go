package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/oncekey/oncekey/core/problem"
)

// live contains the holds of this process whose handler runs or whose response is not
// stored yet, and counts its work. The engine decides about their duplicates without the
// store, so that a store that lost the claim (a restart without persistence) cannot cause
// a second run in the same process.
type live struct {
	// MaxUnsettled bounds the responses that wait for the store. It must not change after
	// the first claim.
	MaxUnsettled int

	mu        sync.Mutex
	byKey     map[[sha256.Size]byte]*Hold // by the bytes of the storage key
	work      int                         // claims, runs and background jobs that are not finished
	unsettled int                         // responses that wait for the store
	closing   bool
	closed    bool          // idle is closed
	idle      chan struct{} // closed when closing is set and work is zero

	// background is the context of work that continues after a response. It ends with
	// Shutdown's context, and not with the last work: a claim that comes too late is
	// released even then.
	background context.Context
	abortAll   context.CancelFunc
	// serving ends when Shutdown begins.
	serving     context.Context
	stopServing context.CancelFunc
}

func (l *live) init() {
	l.byKey, l.MaxUnsettled, l.idle = make(map[[sha256.Size]byte]*Hold), 1024, make(chan struct{})
	l.background, l.abortAll = context.WithCancel(context.Background())
	l.serving, l.stopServing = context.WithCancel(l.background)
}

// Find returns the hold of a key in this process, and the problem code by which new
// keys are refused, or "".
func (l *live) Find(key *[sha256.Size]byte) (hold *Hold, refusal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.look(key)
}

// BeginClaim is Find, and counts a claim if there is neither a hold nor a problem code, so
// that Shutdown waits for the claim's run or for its release. The caller must then call
// EndClaim.
func (l *live) BeginClaim(key *[sha256.Size]byte) (hold *Hold, refusal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if hold, refusal = l.look(key); hold == nil && refusal == "" {
		l.work++
	}
	return hold, refusal
}

func (l *live) look(key *[sha256.Size]byte) (hold *Hold, refusal string) {
	switch {
	case l.closing:
		refusal = problem.ShuttingDown
	case l.unsettled >= l.MaxUnsettled:
		refusal = problem.StoreUnavailable
	}
	return l.byKey[*key], refusal
}

// Has reports whether this process has a hold of a storage key.
func (l *live) Has(storageKey string) bool {
	var key [sha256.Size]byte
	if len(storageKey) != hex.EncodedLen(len(key)) {
		return false
	}
	if _, err := hex.Decode(key[:], []byte(storageKey)); err != nil {
		return false
	}
	hold, _ := l.Find(&key)
	return hold != nil
}

// All returns the holds of this process.
func (l *live) All() []*Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	holds := make([]*Hold, 0, len(l.byKey))
	for _, hold := range l.byKey {
		holds = append(holds, hold)
	}
	return holds
}

// add registers a hold, which takes over the count of its claim, or returns a problem code:
// when the engine shuts down, or when the key has a hold already.
func (l *live) add(hold *Hold) (refusal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closing:
		return problem.ShuttingDown
	case l.byKey[*hold.key] != nil:
		return problem.InProgress
	}
	l.byKey[*hold.key] = hold
	return ""
}

// forget removes the hold, so that the store decides about the key from now on.
func (l *live) forget(hold *Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey[*hold.key] == hold {
		delete(l.byKey, *hold.key)
	}
}

// inBackground runs work that outlives a request, with the values of the request's context: by
// these, a hook of the store's client may choose the tenant. Shutdown waits for the work, and
// cancels its context when Shutdown's own context ends.
func (l *live) inBackground(request context.Context, work func(ctx context.Context)) {
	l.mu.Lock()
	l.work++
	l.mu.Unlock()
	go func() {
		defer l.end()
		work(valued{l.background, context.WithoutCancel(request)})
	}()
}

// valued is a context with the values of another.
type valued struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (c valued) Value(key any) any { return c.values.Value(key) }

// end must be called once for each hold, and for each BeginClaim without one.
func (l *live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work--
	l.closeIfIdle()
}

func (l *live) addUnsettled(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsettled += n
}

// Close refuses new work, and returns a channel that is closed when all work is done.
func (l *live) Close() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
	l.stopServing()
	l.closeIfIdle()
	return l.idle
}

func (l *live) closeIfIdle() {
	if l.closing && l.work == 0 && !l.closed {
		l.closed = true
		close(l.idle)
	}
}

// Abort ends the background work and returns the number of unfinished claims, runs and
// jobs.
func (l *live) Abort() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abortAll()
	return l.work
}
