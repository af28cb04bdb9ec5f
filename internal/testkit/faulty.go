package testkit

import (
	"context"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// Method is a method of a store that a [Faulty] makes fail.
type Method int

// The methods of storage.Store.
const (
	Acquire Method = iota
	Extend
	Complete
	Release
)

// Faulty is a store whose calls fail on a test's request. Its methods are safe for concurrent use.
type Faulty struct {
	storage.Store
	// Before runs before each call, for example to take the time of a round trip. It may be nil.
	Before func(Method)

	mu     sync.Mutex
	faults map[Method]error
}

// Failing is a store whose calls of the methods fail.
func Failing(store storage.Store, err error, methods ...Method) *Faulty {
	f := &Faulty{Store: store}
	f.Fail(err, methods...)
	return f
}

// Fail makes calls of the methods fail. A nil error repairs them.
func (f *Faulty) Fail(err error, methods ...Method) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faults == nil {
		f.faults = make(map[Method]error)
	}
	for _, method := range methods {
		f.faults[method] = err
	}
}

// While makes calls of a method fail while do runs.
func (f *Faulty) While(err error, method Method, do func()) {
	f.Fail(err, method)
	defer f.Fail(nil, method)
	do()
}

func (f *Faulty) fault(method Method) error {
	if f.Before != nil {
		f.Before(method)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.faults[method]
}

// Acquire implements storage.Store.
func (f *Faulty) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	if err := f.fault(Acquire); err != nil {
		return storage.Lease{}, nil, err
	}
	return f.Store.Acquire(ctx, request)
}

// Extend implements storage.Store.
func (f *Faulty) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	if err := f.fault(Extend); err != nil {
		return err
	}
	return f.Store.Extend(ctx, l, ttl)
}

// Complete implements storage.Store.
func (f *Faulty) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	if err := f.fault(Complete); err != nil {
		return err
	}
	return f.Store.Complete(ctx, l, r)
}

// Release implements storage.Store.
func (f *Faulty) Release(ctx context.Context, l storage.Lease) error {
	if err := f.fault(Release); err != nil {
		return err
	}
	return f.Store.Release(ctx, l)
}
