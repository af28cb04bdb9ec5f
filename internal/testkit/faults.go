package testkit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// TryAll calls each operation of a store with its own time limit, and returns the errors by the operations' names. Acquire
// claims another key than the lease's. BeginTransaction is one of them where the store is a [storage.Transactor].
func TryAll(t testing.TB, store storage.Store, lease storage.Lease, patience time.Duration) map[string]error {
	t.Helper()
	limited := func(call func(ctx context.Context) error) error { return Limited(t, patience, call) }
	failures := map[string]error{
		"Acquire": limited(func(ctx context.Context) error {
			_, _, err := store.Acquire(ctx, Claim("another"))
			return err
		}),
		"Extend":   limited(func(ctx context.Context) error { return store.Extend(ctx, lease, time.Minute) }),
		"Complete": limited(func(ctx context.Context) error { return store.Complete(ctx, lease, Result("answer")) }),
		"Release":  limited(func(ctx context.Context) error { return store.Release(ctx, lease) }),
	}
	if transactor, is := store.(storage.Transactor); is {
		failures["BeginTransaction"] = limited(func(ctx context.Context) error {
			_, transaction, err := transactor.BeginTransaction(ctx, lease)
			if err == nil {
				err = transaction.Rollback(ctx)
			}
			return err
		})
	}
	return failures
}

// Limited makes a call with a time limit.
func Limited(t testing.TB, patience time.Duration, call func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return call(ctx)
}

// SurvivesKill kills a store's server, and expects it back with all it has acknowledged.
func SurvivesKill(t testing.TB, store storage.Store, server interface {
	Kill()
	Restart()
},
) {
	t.Helper()
	Finish(t, store, "finished")
	running := Win(t, store, Claim("running"))
	server.Kill()
	for operation, err := range TryAll(t, store, running, 5*time.Second) {
		if err == nil || errors.Is(err, storage.ErrLeaseLost) || !strings.Contains(err.Error(), `"`) {
			t.Errorf("%s returned %v, want an error that names the key", operation, err)
		}
	}
	server.Restart()
	if r := Find(t, store, Claim("finished")); string(r.Body) != "finished" {
		t.Errorf("the record is %+v, want the response", r)
	}
	if r := Find(t, store, Claim("running")); r.State != storage.InProgress || r.LeaseLeft <= 0 || r.LeaseLeft > time.Minute {
		t.Errorf("the record is %+v, want it in progress", r)
	}
	Must(t, store.Complete(t.Context(), running, Result("late")))
	if r := Find(t, store, Claim("running")); string(r.Body) != "late" {
		t.Errorf("the record is %+v, want the response", r)
	}
}

// SurvivesPause freezes a store's server, which then accepts calls and never responds. Each call ends with its context, a
// commit without acknowledgement is no success, and the server carries out its pending statements when it continues. idle
// reports whether the store's pool has all its connections.
func SurvivesPause(t testing.TB, store storage.Transactor, idle func() bool, server interface {
	Pause()
	Resume()
},
) {
	t.Helper()
	lease, paying := Win(t, store, Claim("key")), Win(t, store, Claim("paying"))
	_, transaction, err := store.BeginTransaction(t.Context(), paying)
	Must(t, err)
	server.Pause()
	start := time.Now()
	failures := TryAll(t, store, lease, 100*time.Millisecond)
	failures["Commit"] = Limited(t, 100*time.Millisecond, func(ctx context.Context) error {
		return transaction.Commit(ctx, paying, Result("answer"))
	})
	for operation, err := range failures {
		Fails(t, operation, err, context.DeadlineExceeded)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("six calls of 100 ms took %s", took)
	}
	server.Resume()
	Eventually(t, idle)
	IsRunning(t, store, "paying")
	Must(t, store.Complete(t.Context(), paying, Result("answer")))
	c := Claim("after")
	for range 2 {
		if again := Win(t, store, c); again.Attempt != 1 {
			t.Errorf("it got attempt %d, want 1", again.Attempt)
		}
	}
}
