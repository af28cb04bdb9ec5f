package scopecount

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// Passing has the methods of storage.Limiter for a store over another one, which counts. The keys
// of scopes are no secrets: their names are hashes.
type Passing struct {
	in, by string
	to     storage.Store
}

// NewPassing returns the methods for a package, over a store that its errors call by a name.
func NewPassing(in, by string, to storage.Store) Passing { return Passing{in: in, by: by, to: to} }

// Limits reports whether the other store counts the keys of scopes, see storage.Limits.
func (p *Passing) Limits() bool { return storage.Limits(p.to) }

// Admit implements [storage.Limiter] by the other store. If that is no Limiter, the error is
// [errors.ErrUnsupported].
func (p *Passing) Admit(ctx context.Context, of storage.Place, ttl time.Duration, limit storage.ScopeLimit) (storage.Admission, error) {
	to, can := p.to.(storage.Limiter)
	if !can {
		return storage.Admission{}, p.unsupported("admit")
	}
	return to.Admit(ctx, of, ttl, limit)
}

// Keep implements [storage.Limiter], as Admit does.
func (p *Passing) Keep(ctx context.Context, of storage.Place, ttl time.Duration) error {
	to, can := p.to.(storage.Limiter)
	if !can {
		return p.unsupported("keep")
	}
	return to.Keep(ctx, of, ttl)
}

func (p *Passing) unsupported(operation string) error {
	return fmt.Errorf("%s: %s: %w by the %s, a %T", p.in, operation, errors.ErrUnsupported, p.by, p.to)
}
