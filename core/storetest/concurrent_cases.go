package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	// callers is enough to find a claim that is not atomic.
	callers = 100
	// keysOfCase is the number of keys in cases with several keys: a take-over that sees no other's change is found with half as many.
	keysOfCase = 40
	// callersOfEach is the number of callers of one key in such cases.
	callersOfEach = 10
)

var concurrentCases = []testCase{
	{
		name: "concurrent claims",
		rule: "of any number of concurrent callers exactly one gets the lease, and all others get its record",
		test: func(f *fixture) {
			for round := range 5 {
				f.race(func() storage.Claim { return of(f.claim(), key(round)) }, 1, false)
			}
		},
	},
	{
		name: "concurrent take-overs",
		rule: "of any number of callers that try to take over an abandoned key exactly one succeeds, as the next attempt",
		test: func(f *fixture) {
			f.abandon(f.shortClaim())
			f.race(f.takeOver, 2, true)
		},
	},
	{
		name: "concurrent claims of a released key",
		rule: "a released key with a remembered attempt number also goes to exactly one of its concurrent callers",
		test: func(f *fixture) {
			_, current := f.overtaken()
			f.release(current)
			f.race(f.takeOver, 3, false)
		},
	},
	{
		name: "concurrent claims of a key that has expired",
		rule: "a key whose record has expired, or whose tombstone has, goes to exactly one of its concurrent callers",
		test: func(f *fixture) {
			for i, remember := range []time.Duration{0, f.unit} {
				c := of(f.shortClaim(), key(i))
				c.Retain, c.Remember = f.unit, remember
				f.win(c, 1, false)
			}
			f.wait(3 * f.unit)
			for i := range 2 {
				f.race(func() storage.Claim { return of(f.claim(), key(i)) }, 1, false)
			}
		},
	},
	{
		name: "concurrent completions",
		rule: "of a late holder's Complete and concurrent take-overs exactly one succeeds: either the response is stored and no " +
			"caller claims the key, or one caller claims the key and the Complete returns ErrLeaseLost",
		test: func(f *fixture) {
			f.againstTakeOvers(func(late storage.Lease) error { return f.store.Complete(f.Context(), late, f.result(late)) })
		},
	},
	{
		name: "concurrent renewals",
		rule: "of a late holder's Extend and concurrent take-overs exactly one succeeds: else two handlers run",
		test: func(f *fixture) {
			f.againstTakeOvers(func(late storage.Lease) error { return f.store.Extend(f.Context(), late, f.long()) })
		},
	},
	{
		name: "concurrent releases",
		rule: "of a late holder's Release, with or without Steps, and concurrent take-overs exactly one succeeds: a key that was taken " +
			"over is not released",
		test: func(f *fixture) {
			f.againstTakeOvers(func(late storage.Lease) error { return f.store.Release(f.Context(), late) })
			f.againstTakeOvers(func(late storage.Lease) error {
				late.Steps = "first\n"
				return f.store.Release(f.Context(), late)
			})
		},
	},
	{
		name: "late calls beside a completion",
		rule: "an Extend or an Acquire that its caller has given up may still run when the lease is completed, and never puts the " +
			"finished key back in progress: its response would be lost",
		test: func(f *fixture) {
			f.together(keysOfCase, func(n int) error { return f.completeAgainstLateCalls(key(n), n%callersOfEach) })
		},
	},
	{
		name: "exclusive holders",
		rule: "under any mix of claims and settlements by many callers, a key never has two holders whose leases both run",
		test: func(f *fixture) { f.exclude() },
	},
	{
		name: "random histories",
		rule: "in random calls of many callers, with leases that end meanwhile: an attempt above 1 is granted once, attempt 1 " +
			"once more for each release of it, and at most one response is ever accepted and replayed",
		test: func(f *fixture) { f.histories() },
	},
}

// race lets all callers acquire at once. It expects that one gets the lease of the attempt, which it returns, and that all
// others get its record.
func (f *fixture) race(claim func() storage.Claim, attempt uint64, tookOver bool) storage.Lease {
	f.Helper()
	var winners []storage.Lease
	var losers []*storage.Record
	var mutex sync.Mutex
	f.together(callers, func(int) error {
		lease, record, err := f.store.Acquire(f.Context(), claim())
		mutex.Lock()
		defer mutex.Unlock()
		switch {
		case err != nil:
			return err
		case record == nil:
			winners = append(winners, lease)
		default:
			losers = append(losers, record)
		}
		return nil
	})
	if len(winners) != 1 {
		f.Fatalf("%d of %d callers got the lease, want 1", len(winners), callers)
	}
	winner := winners[0]
	f.isLease(winner, attempt, tookOver)
	for _, r := range losers {
		if r.State != storage.InProgress || r.Attempt != attempt || r.Abandoned() || r.LeaseLeft > winner.LockTTL {
			f.Fatalf("a loser found %s, want attempt %d in progress", describe(r), attempt)
		}
	}
	return winner
}

// againstTakeOvers lets leases end, and then makes the late call of each while other callers take over its key.
func (f *fixture) againstTakeOvers(call func(late storage.Lease) error) {
	f.Helper()
	first := int(f.races.Add(1)) * keysOfCase
	f.together(keysOfCase, func(n int) error { return f.callAgainstTakeOvers(key(first+n), n%callersOfEach, call) })
}

// callAgainstTakeOvers makes the late call as the call number turn.
func (f *fixture) callAgainstTakeOvers(key string, turn int, call func(late storage.Lease) error) error {
	late, _, err := f.store.Acquire(f.Context(), of(f.shortClaim(), key))
	if err != nil {
		return err
	}
	f.wait(2 * f.unit)
	var through atomic.Int32
	err = concurrently(callersOfEach, func(n int) error {
		if n == turn {
			err := call(late)
			if err == nil {
				through.Add(1)
			}
			return orLost(err)
		}
		lease, _, err := f.store.Acquire(f.Context(), of(f.takeOver(), key))
		if lease.TookOver { // else it claimed a released key
			through.Add(1)
		}
		return err
	})
	if err == nil && through.Load() != 1 {
		err = fmt.Errorf("%d late calls and take-overs of one lease succeeded, want 1 in all", through.Load())
	}
	return err
}

// completeAgainstLateCalls completes a lease while its holder's earlier calls arrive, and expects the response.
func (f *fixture) completeAgainstLateCalls(key string, turn int) error {
	lease, _, err := f.store.Acquire(f.Context(), of(f.claim(), key))
	if err != nil {
		return err
	}
	err = concurrently(callersOfEach, func(n int) (err error) {
		switch {
		case n == turn:
			err = f.store.Complete(f.Context(), lease, f.result(lease))
		case n%2 == 0:
			err = orLost(f.store.Extend(f.Context(), lease, f.long()))
		default:
			_, _, err = f.store.Acquire(f.Context(), lease.Claim)
		}
		return err
	})
	if err != nil {
		return err
	}
	_, record, err := f.store.Acquire(f.Context(), of(f.takeOver(), key))
	if err == nil && (record == nil || record.State != storage.Completed) {
		err = fmt.Errorf("the key %s was completed, and is no longer", key)
	}
	return err
}

// together is concurrently for the case's own goroutine.
func (f *fixture) together(n int, call func(n int) error) {
	f.Helper()
	if err := concurrently(n, call); err != nil {
		f.Fatal(err)
	}
}

// concurrently starts n calls at the same moment, waits for all calls, and returns
// the first error.
func concurrently(n int, call func(n int) error) error {
	start := make(chan struct{})
	failures := make(chan error, n)
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			<-start
			if err := call(i); err != nil {
				failures <- fmt.Errorf("caller %d: %w", i, err)
			}
		})
	}
	close(start)
	calls.Wait()
	close(failures)
	return <-failures
}

// spread makes n calls from a few goroutines.
func (f *fixture) spread(n int, call func(n int) error) {
	f.Helper()
	const workers = 8
	f.together(workers, func(worker int) error {
		for i := worker; i < n; i += workers {
			if err := call(i); err != nil {
				return err
			}
		}
		return nil
	})
}
