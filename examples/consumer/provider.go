package main

import (
	"context"
	"errors"
	"sync"

	"github.com/oncekey/oncekey/failure"
)

// provider takes the money. It keeps no idempotency keys: a second call charges a second
// time.
type provider struct {
	mu      sync.Mutex
	calls   int
	charged []string // order ids, in order
}

var (
	errDeclined = errors.New("card declined")
	errBusy     = errors.New("provider is busy")
)

// charge declines every tenth order permanently, and is too busy for every seventh call.
func (p *provider) charge(ctx context.Context, o order) (receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	switch {
	case o.Amount%10 == 0:
		return receipt{}, failure.Permanent(errDeclined)
	case p.calls%7 == 0:
		return receipt{}, failure.Retryable(errBusy)
	}
	p.charged = append(p.charged, o.ID)
	failure.MarkExecuted(ctx) // the point of no return
	return receipt{Number: len(p.charged)}, nil
}
