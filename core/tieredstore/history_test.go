package tieredstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

const (
	historyProcesses  = 3
	callersPerProcess = 4
	livesPerCaller    = 12
	livesPerKey       = 4
	historyKeys       = livesPerCaller / livesPerKey
	historyFaults     = 40
	historyLease      = 100 * time.Millisecond
	storeTimeout      = 50 * time.Millisecond
)

// builder makes one process's store.
type builder func(hot, durable storage.Store) storage.Store

// history is a run of random callers in several processes with a few keys, while the
// servers fail at random: processes die in mid-request, links break, the hot tier
// loses records.
type history struct {
	seed    uint64
	hot     *server
	durable *server
	hots    []*link // by process
	durs    []*link
	stores  []storage.Store
	ledgers [historyKeys]ledger
}

// tally is how much has happened.
type tally struct{ runs, takeOvers, replays int }

// runHistory returns the first contradiction in the history, and counts its events.
func runHistory(t *testing.T, seed uint64, build builder, total *tally) (wrong error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		h := &history{seed: seed, hot: newServer(), durable: newServer()}
		for n := range uint64(historyProcesses) {
			hot, durable := h.hot.link(), h.durable.link()
			hot.set(delayed(nil, h.random(2000+n)))
			durable.set(delayed(nil, h.random(3000+n)))
			h.hots, h.durs = append(h.hots, hot), append(h.durs, durable)
			h.stores = append(h.stores, build(hot, durable))
		}
		var callers sync.WaitGroup
		ctx, end := context.WithCancel(context.Background())
		callers.Go(func() { h.breakThings(ctx, h.random(1000)) })
		for n := range historyProcesses * callersPerProcess {
			callers.Go(func() {
				random := h.random(uint64(n))
				for life := range livesPerCaller {
					key := life / livesPerKey // one after the other: a finished key is dull
					h.live(h.stores[n%historyProcesses], fmt.Sprint("key", key), random, &h.ledgers[key])
				}
			})
		}
		callers.Wait()
		end()
		pass(context.Background(), time.Minute) // for late calls
		for n := range h.ledgers {
			wrong = errors.Join(wrong, h.ledgers[n].verdict(total)) // leaves the bubble: an error
		}
	})
	return wrong
}

func (h *history) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(h.seed, stream)) }

// breakThings breaks and repairs one link or server after another.
func (h *history) breakThings(ctx context.Context, random *rand.Rand) {
	faults := []fault{refuse, hang, loseReply, late(30 * time.Millisecond), unreadable, full}
	for range historyFaults {
		pass(ctx, time.Duration(random.IntN(40_000))*time.Microsecond)
		process := random.IntN(historyProcesses)
		lag, otherLag := h.random(random.Uint64()), h.random(random.Uint64())
		switch random.IntN(8) {
		case 0:
			h.hot.flush()
		case 1, 2:
			h.hot.failOver(random.IntN(12))
		case 3, 4:
			h.hots[process].set(delayed(faults[random.IntN(len(faults))], lag))
		case 5:
			// A database does not say of itself that a record of ours is unreadable.
			h.durs[process].set(delayed(faults[random.IntN(4)], lag))
		default:
			h.hots[process].set(delayed(nil, lag))
			h.durs[process].set(delayed(nil, otherLag))
		}
	}
}

// delayed takes a random time before and after the call, so that the steps of
// different callers come in any order. It has its own random numbers.
func delayed(f fault, random *rand.Rand) fault {
	var mutex sync.Mutex
	travel := func(ctx context.Context) error {
		mutex.Lock()
		d := time.Duration(random.IntN(3000)) * time.Microsecond
		mutex.Unlock()
		pass(ctx, d)
		return ctx.Err()
	}
	return func(ctx context.Context, method string, apply func() error) error {
		if err := travel(ctx); err != nil {
			return err
		}
		call := apply
		if f != nil {
			call = func() error { return f(ctx, method, apply) }
		}
		return errors.Join(call(), travel(ctx))
	}
}

// live is one life of a caller, which may end at any point.
func (h *history) live(store storage.Store, key string, random *rand.Rand, l *ledger) {
	upTo := func(d time.Duration) { pass(context.Background(), time.Duration(random.Int64N(int64(d)))) }
	c := claim(key)
	c.LockTTL = historyLease
	var lease storage.Lease
	var record *storage.Record
	asked, err := tryThrice(func(ctx context.Context) (err error) {
		lease, record, err = store.Acquire(ctx, c)
		return err
	})
	switch {
	case err != nil:
		if random.IntN(2) == 0 { // as the engine does; or else it is dead
			_, _ = tryThrice(func(ctx context.Context) error { return store.Release(ctx, storage.Lease{Claim: c, Attempt: 1}) })
		}
		return
	case record != nil:
		l.saw(record)
		upTo(historyLease / 2)
		return
	}
	l.granted(lease, asked)
	upTo(historyLease)
	if random.IntN(3) == 0 {
		asked, err := tryThrice(func(ctx context.Context) error { return store.Extend(ctx, lease, historyLease) })
		if err != nil {
			return // it may arrive late: the next call must not overtake it
		}
		l.renewed(lease, asked)
		upTo(historyLease)
	}
	switch random.IntN(4) {
	case 0, 1:
		res := result("response of " + lease.Token.String())
		l.settling(lease)
		if _, err := tryThrice(func(ctx context.Context) error { return store.Complete(ctx, lease, res) }); err == nil {
			l.accepted(string(res.Body))
		}
	case 2:
		l.releasing(lease)
		_, _ = tryThrice(func(ctx context.Context) error { return store.Release(ctx, lease) })
	default: // it died
	}
}

// tryThrice calls until it succeeds, and returns when the last call began.
func tryThrice(call func(ctx context.Context) error) (asked time.Time, err error) {
	for range 3 {
		asked = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		err = call(ctx)
		cancel()
		if err == nil || errors.Is(err, storage.ErrLeaseLost) {
			break
		}
	}
	return asked, err
}

func tiered(hot, durable storage.Store) storage.Store {
	return tieredstore.New(hot, durable, tieredstore.Logger(silent), tieredstore.HotTimeout(10*time.Millisecond))
}

// Case 17, in every way that chance finds.
func TestNothingRunsTwice(t *testing.T) {
	t.Parallel()
	seeds := 2000
	if testkit.RaceDetector { // which makes them ten times slower, and needs few of them
		seeds = 50
	}
	var total tally
	for seed := range seeds {
		if err := runHistory(t, uint64(seed), tiered, &total); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if total.runs < seeds*historyKeys || total.takeOvers < seeds || total.replays < seeds*historyKeys {
		t.Errorf("only this has happened in %d histories: %+v", seeds, total)
	}
}

// trusting is a faulty store that runs on the hot tier's grants.
type trusting struct {
	storage.Store
	hot storage.Store
}

func (s trusting) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	lease, record, err := s.hot.Acquire(ctx, c)
	if err == nil && record == nil {
		return lease, nil, nil
	}
	return s.Store.Acquire(ctx, c)
}

// hasty completes the hot tier first.
type hasty struct {
	storage.Store
	hot storage.Store
}

func (s hasty) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	_ = s.hot.Complete(ctx, l, res)
	return s.Store.Complete(ctx, l, res)
}

// The histories find double runs: with faulty stores they fail.
func TestHistoriesFindDoubleRuns(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]builder{
		"trusting": func(hot, durable storage.Store) storage.Store { return trusting{tiered(hot, durable), hot} },
		"hasty":    func(hot, durable storage.Store) storage.Store { return hasty{tiered(hot, durable), hot} },
		"hot only": func(hot, _ storage.Store) storage.Store { return hot },
	}, func(t *testing.T, build builder) {
		for seed := range uint64(1000) {
			if err := runHistory(t, seed, build, new(tally)); err != nil {
				t.Logf("seed %d: %v", seed, err)
				return
			}
		}
		t.Error("1000 histories have found no double run")
	})
}
