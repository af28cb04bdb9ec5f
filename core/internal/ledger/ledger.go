// Package ledger makes every call of a guard to its store. It knows leases, clocks,
// deadlines and repetitions, and the holds of this process: the leases under which a
// handler runs, or whose response waits for the store. It knows no requests and no HTTP.
package ledger

import (
	"errors"
	"time"

	"github.com/oncekey/oncekey/core/internal/agenda"
	"github.com/oncekey/oncekey/core/internal/cause"
	"github.com/oncekey/oncekey/core/internal/machine"
	"github.com/oncekey/oncekey/core/storage"
)

// Ledger makes the calls at one store. It is safe for concurrent use.
type Ledger struct {
	store        store
	clock        machine.Clock
	settleBudget time.Duration
	agenda       agenda.Agenda
	releasing    chan struct{} // bounds the concurrent GiveBacks
	live
}

// New returns the ledger of a store, with the default bounds of an engine.
func New(own storage.Store) *Ledger {
	l := &Ledger{store: store{own}, clock: machine.ClockOf(own), settleBudget: time.Hour, releasing: make(chan struct{}, 64)}
	l.agenda.Follow(l.clock)
	l.live.init()
	return l
}

// Bound sets the time for which a response is stored in the background, and the number of
// responses that may wait for it. Zero leaves a bound as it is. Call Bound before the
// first claim.
func (l *Ledger) Bound(settle time.Duration, unsettled int) {
	if settle > 0 {
		l.settleBudget = settle
	}
	if unsettled > 0 {
		l.maxUnsettled = unsettled
	}
}

// Store returns the program's own store, whose panics are not recovered.
func (l *Ledger) Store() storage.Store { return l.store.own }

// The errors of a hold. Package core documents them.
var (
	ErrRunTooLong   = cause.New("oncekey: the handler ran longer than MaxRun")
	ErrNotConfirmed = errors.New("oncekey: the store has not confirmed the response")
	ErrUnavailable  = errors.New("oncekey: the store is unavailable, or the engine shuts down")
)
