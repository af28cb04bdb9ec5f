package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/problem"
)

// liveRuns contains the runs of this process with a running handler or with a response
// that is not stored yet. The engine decides about their duplicates without the store,
// so that a store that lost the claim (a restart without persistence) cannot cause a
// second run in the same process.
type liveRuns struct {
	mu           sync.Mutex
	byKey        map[[sha256.Size]byte]*Run // by the bytes of the storage key
	work         int                        // claims, runs and background jobs that are not finished
	unsettled    int                        // responses that wait for the store
	maxUnsettled int
	closing      bool
	closed       bool          // idle is closed
	idle         chan struct{} // closed when closing is set and work is zero

	// background is the context of work that continues after a response. It ends with
	// Shutdown's context, and not with the last work: a claim that comes too late is
	// released even then.
	background context.Context
	abortAll   context.CancelFunc
	// serving ends when Shutdown begins.
	serving     context.Context
	stopServing context.CancelFunc
}

func newLiveRuns() *liveRuns {
	l := &liveRuns{byKey: make(map[[sha256.Size]byte]*Run), maxUnsettled: 1024, idle: make(chan struct{})}
	l.background, l.abortAll = context.WithCancel(context.Background())
	l.serving, l.stopServing = context.WithCancel(l.background)
	return l
}

// find returns the run of a key in this process, and the problem code by which new
// keys are refused, or "".
func (l *liveRuns) find(key *[sha256.Size]byte) (run *Run, refusal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closing:
		refusal = problem.ShuttingDown
	case l.unsettled >= l.maxUnsettled:
		refusal = problem.StoreUnavailable
	}
	return l.byKey[*key], refusal
}

// has reports whether this process has a run of a storage key.
func (l *liveRuns) has(storageKey string) bool {
	var key [sha256.Size]byte
	if len(storageKey) != hex.EncodedLen(len(key)) {
		return false
	}
	if _, err := hex.Decode(key[:], []byte(storageKey)); err != nil {
		return false
	}
	run, _ := l.find(&key)
	return run != nil
}

// add registers a run, or returns a problem code: when the engine shuts down, or when
// the key has a run already.
func (l *liveRuns) add(run *Run) (refusal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closing:
		return problem.ShuttingDown
	case l.byKey[run.subject.digest] != nil:
		return problem.InProgress
	}
	l.byKey[run.subject.digest] = run
	l.work++
	return ""
}

// forget removes the run, so that the store decides about the key from now on.
func (l *liveRuns) forget(run *Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey[run.subject.digest] == run {
		delete(l.byKey, run.subject.digest)
	}
}

// begin counts a piece of background work.
func (l *liveRuns) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work++
}

// end must be called once for each add, begin or beginClaim.
func (l *liveRuns) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work--
	l.closeIfIdle()
}

func (l *liveRuns) addUnsettled(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsettled += n
}

// close refuses new work, and returns a channel that is closed when all work is done.
func (l *liveRuns) close() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closing {
		l.closing = true
		l.stopServing()
		l.closeIfIdle()
	}
	return l.idle
}

func (l *liveRuns) closeIfIdle() {
	if l.closing && l.work == 0 && !l.closed {
		l.closed = true
		close(l.idle)
	}
}

// abort ends the background work and returns the number of unfinished claims, runs and
// jobs.
func (l *liveRuns) abort() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abortAll()
	return l.work
}

// inBackground runs work that outlives a request. Shutdown waits for the work, and
// cancels its context when Shutdown's own context ends.
func (e *Engine) inBackground(work func(ctx context.Context)) {
	e.live.begin()
	go func() {
		defer e.live.end()
		work(e.live.background)
	}()
}

// callStore makes one call to the store with a timeout.
func callStore(ctx context.Context, timeout time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return call(ctx)
}

// backoff doubles from first up to limit, with jitter between half and all of the
// delay. The jitter comes from the clock and not from a random source, so that a
// simulation on a virtual clock repeats exactly.
func backoff(try int, first, limit time.Duration) time.Duration {
	d := limit
	if try < 16 {
		d = min(limit, first<<try)
	}
	return d/2 + time.Duration(mix(uint64(time.Now().UnixNano()))%uint64(d/2+1))
}

// mix is the finalizer of splitmix64, which spreads close inputs far apart.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// sleep waits for d. It reports false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
