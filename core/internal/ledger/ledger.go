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
	// SettleBudget is the time for which a response is stored in the background. It must
	// not change after the first claim.
	SettleBudget time.Duration
	// Limiter counts the keys of scopes, and Limit bounds them. Without a limit Limiter is nil.
	// They must not change after the first claim.
	Limiter storage.Limiter
	Limit   storage.ScopeLimit

	store     store
	clock     machine.Clock
	agenda    agenda.Agenda
	releasing chan struct{} // bounds the concurrent GiveBacks
	live
}

// New returns the ledger of a store, with the default bounds of an engine.
func New(own storage.Store) *Ledger {
	l := &Ledger{SettleBudget: time.Hour, store: store{own}, clock: machine.ClockOf(own), releasing: make(chan struct{}, 64)}
	l.agenda.Clock = l.clock
	l.live.init()
	return l
}

// Store returns the program's own store, whose panics are not recovered.
func (l *Ledger) Store() storage.Store { return l.store.own }

// The errors of a hold. Package core documents them.
var (
	ErrRunTooLong   = cause.New("oncekey: the handler ran longer than MaxRun")
	ErrNotConfirmed = errors.New("oncekey: the store has not confirmed the response")
	ErrUnavailable  = errors.New("oncekey: the store is unavailable, or the engine shuts down")
)
