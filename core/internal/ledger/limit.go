package ledger

import (
	"context"
	"time"

	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/storage"
)

// place is the place of a key in the limit of its scope. A panic of the store is an error.
type place struct {
	own storage.Limiter
	is  storage.Place
}

func (p *place) admit(ctx context.Context, ttl time.Duration, limit storage.ScopeLimit) (a storage.Admission, err error) {
	defer panicked.ToError("Store", &err)
	return p.own.Admit(ctx, p.is, ttl, limit)
}

// keep renews the place, or gives it back for a ttl of zero. It returns no error: a place that is
// lost lets one more key in, and one that is not given back ends with its lease.
func (p *place) keep(ctx context.Context, timeout, ttl time.Duration) {
	_ = within(ctx, timeout, func(ctx context.Context) (err error) {
		defer panicked.ToError("Store", &err)
		return p.own.Keep(ctx, p.is, ttl)
	})
}
