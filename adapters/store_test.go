package adapters_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// countingStore counts its calls.
type countingStore struct {
	storage.Store
	acquires, completes, releases atomic.Int64
}

func (s *countingStore) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	s.acquires.Add(1)
	return s.Store.Acquire(ctx, c)
}

func (s *countingStore) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	s.completes.Add(1)
	return s.Store.Complete(ctx, l, r)
}

func (s *countingStore) Release(ctx context.Context, l storage.Lease) error {
	s.releases.Add(1)
	return s.Store.Release(ctx, l)
}

// foundStore returns the record of another process for every claim.
type foundStore struct {
	storage.Store
	find func(storage.Claim) *storage.Record
}

func (s *foundStore) Acquire(_ context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	return storage.Lease{}, s.find(request.Claim()), nil
}

// holding is a store in which every key has this record, of an equal request.
func holding(record storage.Record) storage.Store {
	return &foundStore{memstore.New(), func(c storage.Claim) *storage.Record {
		found := record
		found.Fingerprint, found.Attempt = c.Fingerprint, 1
		return &found
	}}
}

// holdingOther is a store in which every key has this record, of another payload.
func holdingOther(record storage.Record) storage.Store {
	return &foundStore{memstore.New(), func(storage.Claim) *storage.Record {
		found := record
		found.Fingerprint, found.Attempt = "sha256:other", 1
		return &found
	}}
}

// failing is a store whose claims fail.
func failing(err error) storage.Store {
	return testkit.Failing(memstore.New(), err, testkit.Acquire)
}

// inFlight is the record of a request that runs in another process.
var inFlight = storage.Record{State: storage.InProgress, LeaseLeft: 30 * time.Second}

// abandoned is the record of a request whose process has died.
var abandoned = storage.Record{State: storage.InProgress, LeaseLeft: -time.Second}

// eventLog keeps the observed events.
type eventLog struct {
	mu  sync.Mutex
	all []observed
	// warned counts the warnings about gin's ContextWithFallback, which all leaves out.
	warned  int
	awaited map[event.Result]chan struct{}
}

type observed struct {
	result          event.Result
	code            string
	endpoint, route string
	reason          string
}

// Observe implements event.Observer.
func (l *eventLog) Observe(_ context.Context, e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Result == event.WrongSetup && strings.Contains(fmt.Sprint(e.Err), "ContextWithFallback") {
		l.warned++
		return
	}
	if came := l.awaited[e.Result]; came != nil {
		delete(l.awaited, e.Result)
		close(came)
	}
	l.all = append(l.all, observed{e.Result, e.Code, e.Endpoint(), e.Route, e.Reason})
}

// of returns the events with a result.
func (l *eventLog) of(result event.Result) []observed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(o observed) bool { return o.result != result })
}

// next is closed when an event with this result comes.
func (l *eventLog) next(result event.Result) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	came := make(chan struct{})
	l.awaited = map[event.Result]chan struct{}{result: came}
	return came
}
