package tieredstore_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// server represents a database: a memstore that can lose acknowledged writes.
type server struct {
	mutex   sync.Mutex
	store   *memstore.Store
	journal []write
}

// write is one that was acknowledged: how to do it again when so much time has
// passed.
type write struct {
	at   time.Time
	redo func(store *memstore.Store, passed time.Duration) error
}

func newServer() *server { return &server{store: memstore.New()} }

func (s *server) link() *link { return &link{server: s} }

func (s *server) apply(call func(store *memstore.Store) (bool, error), redo func(*memstore.Store, time.Duration) error) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	wrote, err := call(s.store)
	if err == nil && wrote {
		s.journal = append(s.journal, write{time.Now(), redo})
	}
	return err
}

// flush forgets everything.
func (s *server) flush() { s.failOver(int(^uint(0) >> 1)) }

// failOver continues without the last writes, like a replica that had not received
// them.
func (s *server) failOver(lost int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.store, s.journal = memstore.New(), s.journal[:max(0, len(s.journal)-lost)]
	for _, w := range s.journal {
		_ = w.redo(s.store, time.Since(w.at)) // an expired lease or record cannot be written again, and need not be
	}
}

func (s *server) current() *memstore.Store {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.store
}

// fault decides the fate of a call: whether it is applied, and whether the caller
// gets the reply.
type fault func(ctx context.Context, method string, apply func() error) error

var (
	refuse fault = func(context.Context, string, func() error) error { return errDown }
	hang   fault = func(ctx context.Context, _ string, _ func() error) error { <-ctx.Done(); return ctx.Err() }
	// loseReply applies the call, and says that it failed.
	loseReply fault = func(_ context.Context, _ string, apply func() error) error { _ = apply(); return errDown }
	full      fault = func(context.Context, string, func() error) error { return storage.ErrStoreFull }
	// unreadable concerns reads: also of a key without a record.
	unreadable fault = func(_ context.Context, method string, apply func() error) error {
		if method == "Acquire" {
			return storage.ErrCorruptRecord
		}
		return apply()
	}
)

// late applies the call when its caller has given up.
func late(by time.Duration) fault {
	return func(ctx context.Context, _ string, apply func() error) error {
		<-ctx.Done()
		time.AfterFunc(by, func() { _ = apply() })
		return ctx.Err()
	}
}

// in restricts a fault to some methods.
func (f fault) in(methods ...string) fault {
	return func(ctx context.Context, method string, apply func() error) error {
		if slices.Contains(methods, method) {
			return f(ctx, method, apply)
		}
		return apply()
	}
}

// link is one process's connection to a server. It is a storage.Store and a
// storage.Inspector that counts its calls, and fails on demand.
type link struct {
	server *server

	mutex sync.Mutex
	fault fault
	calls []string
}

func (l *link) set(f fault) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.fault = f
}

// taken returns the calls since taken was last called.
func (l *link) taken() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}

// wants expects the number of calls since taken or wants was last called.
func (l *link) wants(t *testing.T, want int) {
	t.Helper()
	testkit.Equal(t, len(l.taken()), want, "calls of the tier")
}

func (l *link) call(ctx context.Context, method string, apply func() error) error {
	l.mutex.Lock()
	l.calls = append(l.calls, method)
	fault := l.fault
	l.mutex.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if fault == nil {
		return apply()
	}
	return fault(ctx, method, apply)
}

func (l *link) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	type found struct {
		lease  storage.Lease
		record *storage.Record
	}
	done := make(chan found, 1) // a late call's result is not read
	err := l.call(ctx, "Acquire", func() error {
		var got found
		err := l.server.apply(func(store *memstore.Store) (wrote bool, err error) {
			got.lease, got.record, err = store.Acquire(context.Background(), c)
			return got.record == nil, err
		}, func(store *memstore.Store, passed time.Duration) error {
			again := c
			again.LockTTL, again.Retain = max(1, c.LockTTL-passed), c.Retain-passed // both began then
			if again.Retain <= 0 {
				return nil
			}
			_, _, err := store.Acquire(context.Background(), again)
			return err
		})
		done <- got
		return err
	})
	if err != nil {
		return storage.Lease{}, nil, err
	}
	got := <-done
	return got.lease, got.record, nil
}

func (l *link) Complete(ctx context.Context, lease storage.Lease, res storage.Result) error {
	return l.settle(ctx, "Complete", func(store *memstore.Store, passed time.Duration) error {
		again := res
		if again.Retain -= passed; again.Retain <= 0 {
			return nil
		}
		return store.Complete(context.Background(), lease, again)
	})
}

func (l *link) Release(ctx context.Context, lease storage.Lease) error {
	return l.settle(ctx, "Release", func(store *memstore.Store, _ time.Duration) error {
		return store.Release(context.Background(), lease)
	})
}

func (l *link) Extend(ctx context.Context, lease storage.Lease, ttl time.Duration) error {
	return l.settle(ctx, "Extend", func(store *memstore.Store, passed time.Duration) error {
		return store.Extend(context.Background(), lease, max(1, ttl-passed))
	})
}

func (l *link) settle(ctx context.Context, method string, do func(*memstore.Store, time.Duration) error) error {
	return l.call(ctx, method, func() error { return l.write(do) })
}

func (l *link) write(do func(*memstore.Store, time.Duration) error) error {
	return l.server.apply(func(store *memstore.Store) (bool, error) { return true, do(store, 0) }, do)
}

func (l *link) Lookup(ctx context.Context, key string) (found *storage.Record, err error) {
	err = l.call(ctx, "Lookup", func() error {
		found, err = l.server.current().Lookup(ctx, key)
		return err
	})
	return found, err
}

func (l *link) List(ctx context.Context, filter storage.Filter, page storage.Page) (found storage.Listing, err error) {
	err = l.call(ctx, "List", func() error {
		found, err = l.server.current().List(ctx, filter, page)
		return err
	})
	return found, err
}

func (l *link) Settle(ctx context.Context, key string, attempt uint64, confirmation storage.Confirmation) error {
	return l.call(ctx, "Settle", func() error {
		return l.write(func(store *memstore.Store, _ time.Duration) error {
			return store.Settle(context.Background(), key, attempt, confirmation)
		})
	})
}

func (l *link) Forget(ctx context.Context, key string, confirmation storage.Confirmation) (bool, error) {
	var forgotten atomic.Bool // a late call's result is not read
	err := l.call(ctx, "Forget", func() error {
		return l.write(func(store *memstore.Store, _ time.Duration) error {
			was, err := store.Forget(context.Background(), key, confirmation)
			forgotten.Store(was)
			return err
		})
	})
	return forgotten.Load(), err
}

// bare hides all methods of a store beside those of storage.Store.
type bare struct{ storage.Store }
