package core

import (
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// ScopeLimit bounds the new keys of each scope: see WithScopeLimit. A zero means no bound of
// that kind. One of both must be set.
type ScopeLimit struct {
	// InFlight is how many keys of a scope may run at a time, from 1 to 10,000.
	InFlight int
	// PerMinute is how many new keys a scope may use in a minute. The minute is fixed: it
	// begins with the first new key after the minute before has ended. So the last keys of one
	// minute and the first of the next may come together: twice as many within a moment.
	PerMinute int
}

// WithScopeLimit bounds the new keys of each scope over all routes, so that a client with a
// flood of keys fills no store. The store counts, and so all processes with the same store and
// the same WithService share one limit. Above it a request with a new key gets the problem
// scope_limited: 429 with a Retry-After, of which the store keeps no record, and Do returns
// ErrScopeLimited. Default: no limit.
//
// Only a request that would run its handler as the first attempt of a key counts. Replays,
// refusals, requests for a key in progress and later attempts of a key pass. A key that was
// released without a record is new again. The keys of routes that only observe count apart, and
// fill no limit of the others.
//
// A key is in flight until it is settled. If its process dies, or its settlement waits for the
// store, it counts until its lease has ended, and a response that streams for longer than LockTTL
// ends to count. A store that cannot count is unavailable, as for a claim: the policy's
// OnStoreError decides.
//
// The limit costs a first-time request one call of the store, or two with an InFlight, each
// within StoreTimeout, and with an InFlight one for each renewal of the lease and each line of
// a step. A replay costs no more. New returns an error for a store that is no
// storage.Limiter. The scope reaches the store only as a hash.
//
//	core.WithScopeLimit(core.ScopeLimit{InFlight: 100, PerMinute: 600})
func WithScopeLimit(limit ScopeLimit) Option {
	return func(e *Engine) error {
		switch {
		case limit.InFlight < 0 || limit.InFlight > storage.MaxInFlight:
			return limitError("InFlight", limit.InFlight, fmt.Sprintf("from 1 to %d, or 0 for no bound", storage.MaxInFlight))
		case limit.PerMinute < 0:
			return limitError("PerMinute", limit.PerMinute, "above 0, or 0 for no bound")
		case limit == ScopeLimit{}:
			return limitError("InFlight", limit.InFlight, "above 0 where PerMinute is 0: leave the option out for no limit")
		}
		limiter, is := e.ledger.Store().(storage.Limiter)
		if !is || !storage.Limits(limiter) {
			return fmt.Errorf("oncekey: WithScopeLimit is given to an engine over %T, which cannot count the keys of a scope: it has no methods of storage.Limiter", e.ledger.Store())
		}
		e.ledger.Limiter = limiter
		e.ledger.Limit = storage.ScopeLimit{InFlight: limit.InFlight, NewKeys: limit.PerMinute, Window: time.Minute}
		return nil
	}
}

func limitError(field string, value int, want string) error {
	return fmt.Errorf("oncekey: WithScopeLimit: %w", &policy.FieldError{Field: "ScopeLimit." + field, Value: value, Want: want})
}
