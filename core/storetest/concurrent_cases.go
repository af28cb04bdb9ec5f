package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	// callers are enough to find a claim that is not atomic.
	callers = 100
	// rivals are the callers of one key where there are several keys.
	rivals = 10
)

var concurrentCases = []testCase{
	{
		name: "concurrent claims",
		rule: "of any number of concurrent callers exactly one gets the lease, and all the others see its record (case 1)",
		test: func(f *fixture) {
			for round := range 5 {
				winner, losers := f.race(func() storage.Claim {
					c := f.claim()
					c.Key = key(round)
					return c
				})
				if winner.Attempt != 1 || winner.TookOver {
					f.Errorf("the winner has attempt %d with TookOver %t, want 1 with false", winner.Attempt, winner.TookOver)
				}
				f.seeClaim(losers, winner)
			}
		},
	},
	{
		name: "concurrent take-overs",
		rule: "of any number of callers who want to take an abandoned key over exactly one does, as the next attempt",
		test: func(f *fixture) {
			f.abandon()
			winner, losers := f.race(f.takeOver)
			if winner.Attempt != 2 || !winner.TookOver {
				f.Errorf("the winner has attempt %d with TookOver %t, want 2 with true", winner.Attempt, winner.TookOver)
			}
			f.seeClaim(losers, winner)
		},
	},
	{
		name: "concurrent claims of a released key",
		rule: "a released key whose attempt number is remembered goes to exactly one of its concurrent callers too",
		test: func(f *fixture) {
			_, current := f.overtaken()
			f.release(current)
			winner, losers := f.race(f.takeOver)
			if winner.Attempt != 3 || winner.TookOver {
				f.Errorf("the winner has attempt %d with TookOver %t, want 3 with false", winner.Attempt, winner.TookOver)
			}
			f.seeClaim(losers, winner)
		},
	},
	{
		name: "concurrent completions",
		rule: "of a lapsed holder's Complete and concurrent take-overs exactly one goes through: either the answer is stored and nobody " +
			"claims the key, or one has claimed it and the Complete returns ErrLeaseLost",
		test: func(f *fixture) {
			f.together(callers, func(n int) error { return f.completeAgainstTakeOvers(key(n), n%rivals) })
		},
	},
	{
		name: "exclusive holders",
		rule: "under any mix of claims and settlements by many callers, no key has two holders at a time whose leases both run",
		test: func(f *fixture) { f.exclude() },
	},
	{
		name: "random histories",
		rule: "whatever many callers do at random, leases running out under them: an attempt above 1 is given out once, attempt 1 once more " +
			"for each release of it, and at most one answer is ever accepted and replayed",
		test: func(f *fixture) { f.histories() },
	},
}

// race lets all callers acquire at once, and returns the only winner's lease and
// the records that the others got.
func (f *fixture) race(claim func() storage.Claim) (storage.Lease, []*storage.Record) {
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
	return winners[0], losers
}

func (f *fixture) seeClaim(records []*storage.Record, winner storage.Lease) {
	f.Helper()
	for _, r := range records {
		if r.State != storage.InProgress || r.Attempt != winner.Attempt || r.Abandoned() || r.LeaseLeft > winner.TTL {
			f.Fatalf("a loser found %s, want attempt %d in progress", describe(r), winner.Attempt)
		}
	}
}

// completeAgainstTakeOvers lets a lease run out, and then completes it while
// others take its key over. Which of the calls starts as the turn-th is the
// Complete.
func (f *fixture) completeAgainstTakeOvers(key string, turn int) error {
	c := f.shortClaim()
	c.Key = key
	late, _, err := f.store.Acquire(f.Context(), c)
	if err != nil {
		return err
	}
	f.wait(2 * f.unit)
	var through atomic.Int32
	err = concurrently(rivals, func(n int) error {
		if n == turn {
			err := f.store.Complete(f.Context(), late, f.result(late))
			if err == nil {
				through.Add(1)
			}
			return orLost(err)
		}
		c := f.takeOver()
		c.Key = key
		_, record, err := f.store.Acquire(f.Context(), c)
		if err == nil && record == nil {
			through.Add(1)
		}
		return err
	})
	if err == nil && through.Load() != 1 {
		err = fmt.Errorf("%d completions and take-overs of one lease went through, want 1 in all", through.Load())
	}
	return err
}

// together is concurrently, for the case's own goroutine.
func (f *fixture) together(n int, call func(n int) error) {
	f.Helper()
	if err := concurrently(n, call); err != nil {
		f.Fatal(err)
	}
}

// concurrently starts n calls at the same moment, waits for all of them, and
// returns the first of their errors.
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
