package core

import (
	"crypto/sha256"
	"fmt"
	"sync"
)

// Limits of the requests that wait for a response (policy.Wait) in one engine. A waiting
// request keeps its body and its connection. Further requests are refused at once with
// 409 in_progress.
const (
	maxWaitersOfKey = 128
	maxWaiters      = 1024
)

// errTooManyWaiters is the error of the event about a request that may not wait.
var errTooManyWaiters = fmt.Errorf("oncekey: too many requests wait: at most %d for one key and %d in one process", maxWaitersOfKey, maxWaiters)

// waiters counts the requests that wait. The zero value is ready for use.
type waiters struct {
	mu    sync.Mutex
	all   int
	byKey map[[sha256.Size]byte]int // above zero, by the bytes of the storage key
}

// begin counts a request, or returns false at a limit. The caller must call end after
// true.
func (w *waiters) begin(key *[sha256.Size]byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == maxWaiters || w.byKey[*key] == maxWaitersOfKey {
		return false
	}
	if w.byKey == nil {
		w.byKey = make(map[[sha256.Size]byte]int)
	}
	w.all++
	w.byKey[*key]++
	return true
}

func (w *waiters) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

func (w *waiters) end(key *[sha256.Size]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if w.byKey[*key]--; w.byKey[*key] == 0 {
		delete(w.byKey, *key)
	}
}
