package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	historyKeys    = 16
	callersPerKey  = 4
	historyCallers = historyKeys * callersPerKey
)

// exclude lets callers claim, renew and release a few keys under leases that last,
// and counts the holders of each key.
func (f *fixture) exclude() {
	var holders [historyKeys]atomic.Int32
	f.together(historyCallers, func(caller int) error {
		n := caller % historyKeys
		for range 20 {
			lease, record, err := f.store.Acquire(f.Context(), of(f.takeOver(), key(n)))
			if err != nil {
				return err
			}
			if record != nil {
				f.wait(f.unit / 100)
				continue
			}
			if others := holders[n].Add(1) - 1; others > 0 {
				return fmt.Errorf("attempt %d of key %d has %d more holders", lease.Attempt, n, others)
			}
			f.wait(f.unit / 100)
			if err := f.store.Extend(f.Context(), lease, f.long()); err != nil {
				return fmt.Errorf("extend: %w", err)
			}
			holders[n].Add(-1)
			if err := f.store.Release(f.Context(), lease); err != nil {
				return fmt.Errorf("release: %w", err)
			}
		}
		return nil
	})
}

// histories lets callers make random calls with a few keys, and checks the store's
// grants.
func (f *fixture) histories() {
	var ledgers [historyKeys]ledger
	f.together(historyCallers, func(caller int) error {
		random := rand.New(rand.NewPCG(1, uint64(caller))) // the same in each run
		n := caller % historyKeys
		for range 6 {
			if err := f.live(key(n), random, &ledgers[n]); err != nil {
				return err
			}
		}
		return nil
	})
	for n := range ledgers {
		_, record := f.acquire(of(f.claim(), key(n)))
		if err := ledgers[n].check(record); err != nil {
			f.Errorf("key %d: %v", n, err)
		}
	}
}

// live is one life of a caller: claim the key, perhaps let the lease end, perhaps
// renew the lease, and perhaps settle the lease.
func (f *fixture) live(key string, random *rand.Rand, granted *ledger) error {
	// A few values only, so that callers collide.
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.IntN(5)) * d / 4 }
	c := f.takeOver()
	c.Key, c.LockTTL = key, f.unit/2
	asked := time.Now()
	lease, record, err := f.store.Acquire(f.Context(), c)
	if err != nil {
		return err
	}
	if record != nil {
		if time.Since(asked) >= c.LockTTL {
			granted.addOverdue()
		}
		f.wait(upTo(f.unit / 2))
		return nil
	}
	granted.add(&granted.claims, lease)
	f.wait(upTo(f.unit))
	if random.IntN(2) == 0 {
		if err := orLost(f.store.Extend(f.Context(), lease, c.LockTTL)); err != nil {
			return err
		}
		f.wait(upTo(f.unit))
	}
	switch random.IntN(4) {
	case 0, 1:
		result := f.result(lease)
		result.Retain = c.Retain // longer than all lives, however slow the store is
		return granted.settled(&granted.completions, lease, f.store.Complete(f.Context(), lease, result))
	case 2:
		return granted.settled(&granted.releases, lease, f.store.Release(f.Context(), lease))
	default: // the caller's process has crashed
		return nil
	}
}

// ledger has the store's grants for one key.
type ledger struct {
	mutex                         sync.Mutex
	claims, completions, releases []storage.Lease
	// overdue counts the claims that took longer than their lease. Each may hide an
	// attempt that began and ended before the caller knew.
	overdue int
}

func (l *ledger) addOverdue() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.overdue++
}

func (l *ledger) add(grants *[]storage.Lease, lease storage.Lease) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	*grants = append(*grants, lease)
}

func (l *ledger) settled(grants *[]storage.Lease, lease storage.Lease, err error) error {
	if err == nil {
		l.add(grants, lease)
	}
	return orLost(err)
}

// check looks for grants that contradict each other. record is the key's record at
// the end.
func (l *ledger) check(record *storage.Record) error {
	given, released := countAttempts(l.claims), countAttempts(l.releases)
	hidden := 0
	for attempt, times := range given {
		switch {
		case attempt == 1 && times > released[1]+1:
			return fmt.Errorf("attempt 1 was granted %d times, and released %d times", times, released[1])
		case attempt > 1 && times > 1:
			return fmt.Errorf("attempt %d was granted %d times", attempt, times)
		case attempt > 1 && given[attempt-1] == 0 && hidden < l.overdue:
			hidden++
		case attempt > 1 && given[attempt-1] == 0:
			return fmt.Errorf("attempt %d was granted, but never attempt %d", attempt, attempt-1)
		}
	}
	switch {
	case len(l.completions) > 1:
		return fmt.Errorf("%d responses were accepted, want at most 1", len(l.completions))
	case len(l.completions) == 1 && (record == nil || string(record.Body) != fmt.Sprintf("response of %s", l.completions[0].Token)):
		return errors.New("the replayed response is not the accepted response")
	case len(l.completions) == 0 && record != nil && record.State != storage.InProgress:
		return errors.New("the replayed response was never accepted")
	default:
		return nil
	}
}

func countAttempts(leases []storage.Lease) map[uint64]int {
	counts := map[uint64]int{}
	for _, lease := range leases {
		counts[lease.Attempt]++
	}
	return counts
}

// orLost accepts a lost lease.
func orLost(err error) error {
	if errors.Is(err, storage.ErrLeaseLost) {
		return nil
	}
	return err
}
