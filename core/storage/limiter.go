package storage

import (
	"context"
	"time"
)

// Limiter is a Store that counts the keys of a scope, so that all processes over it agree on
// the limit of core.WithScopeLimit. The interface is optional. The engine calls it only with
// that option, and only for the first attempt of a key.
//
// A store that wraps another store also has a method Limits() bool, which reports whether
// the wrapped store is a Limiter.
type Limiter interface {
	Store
	// Admit decides whether a scope may run one more key, and counts the key, in one atomic
	// step for all callers. With a limit of InFlight the key takes a place, which lasts for
	// ttl unless Keep renews it, and ends by itself. A place that has ended counts no more.
	//
	// A refused call counts nothing. A call with the token of a place that the scope has is
	// admitted again, renews the place and counts nothing: a caller may repeat Admit after a
	// timeout that hid a success. Without an InFlight there is no place, and a repeated call
	// counts twice.
	//
	// The window of NewKeys is fixed: it begins with the first key after the window before has
	// ended, and lasts for Window by the store's clock. With more than Window left, it is over.
	Admit(ctx context.Context, p Place, ttl time.Duration, limit ScopeLimit) (Admission, error)
	// Keep renews a place, to last for ttl from now. A ttl of zero gives the place back. Keep
	// has no effect on a place that does not exist, and changes no window.
	Keep(ctx context.Context, p Place, ttl time.Duration) error
}

// Limits reports whether a store is a Limiter. A wrapping store always implements Limiter,
// and its Limits method reports whether the wrapped store is one. The engine asks once, for
// core.WithScopeLimit: a store whose Check tries rights may learn from its own Limits method
// that it needs those of Admit and Keep.
func Limits(store Store) bool {
	if wrapper, ok := store.(interface{ Limits() bool }); ok {
		return wrapper.Limits()
	}
	_, ok := store.(Limiter)
	return ok
}

// MaxInFlight is the largest InFlight of a ScopeLimit, because a store may keep the places of a
// scope in one record.
const MaxInFlight = 10_000

// ScopeLimit bounds the keys of each scope. A zero means no bound of that kind.
type ScopeLimit struct {
	// InFlight is how many first attempts may run at a time, at most MaxInFlight.
	InFlight int
	// NewKeys is how many new keys there may be in a window.
	NewKeys int
	// Window is the length of a window, at least a millisecond. The engine passes a minute.
	Window time.Duration
}

// Place names a key that a scope has in flight.
type Place struct {
	// Scope is a hash of the scope, as 64 hex digits. A store never sees the scope's name.
	Scope string
	// Token is the token of the key's lease.
	Token Token
}

// Admission is the decision of Admit.
type Admission struct {
	// Reached is the bound that refuses the key, or zero: the key is admitted.
	Reached Bound
	// Wait is the rest of the window for ReachedNewKeys, and otherwise zero: a place may come
	// back at any time.
	Wait time.Duration
}

// Bound is a bound of a ScopeLimit.
type Bound uint8

// The bounds that refuse a key.
const (
	ReachedInFlight Bound = iota + 1
	ReachedNewKeys
)
