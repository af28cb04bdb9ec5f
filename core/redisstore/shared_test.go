package redisstore

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/internal/testkit"
)

func newSharing(t *testing.T) *Store {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true})
	t.Cleanup(func() { rdb.Close() })
	return New(rdb)
}

// ends returns how many ends are shared. It takes the mutex although nothing runs: the
// race detector sees no order between a look without it and the timer's later write.
func (d *dialing) ends() int {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return len(d.shared)
}

// Case 12: calls that wait for a connection end with their deadline, at most a step
// later, and calls of nearly equal deadlines share a timer.
func TestSharedEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newSharing(t).dialing
		for range 200 {
			for _, limit := range []time.Duration{time.Millisecond, sharedStep, 500 * time.Millisecond, near} {
				go func() {
					start, ctx := time.Now(), &sharedContext{t.Context(), d.share(limit)}
					if ctx.Err() != nil {
						t.Errorf("a call of %s ended before it began", limit)
					}
					<-ctx.Done()
					if took := time.Since(start); !errors.Is(ctx.Err(), context.DeadlineExceeded) || took < limit || took > limit+sharedStep {
						t.Errorf("a call of %s took %s, and ended with %v", limit, took, ctx.Err())
					}
				}()
			}
		}
		synctest.Wait()
		testkit.Equal(t, d.ends(), 4, "ends of 800 calls with 4 deadlines")
		<-time.After(near + sharedStep)
		synctest.Wait()
		testkit.Equal(t, d.ends(), 0, "ends that are left")
	})
}

// Case 47: a dial that fails ends the calls that share an end, and says why.
func TestFailedDialEndsSharedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		start := time.Now()
		for range 3 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), near)
				defer cancel()
				_, err := bounded(ctx, s, func(ctx context.Context) (struct{}, error) {
					<-ctx.Done()
					return struct{}{}, ctx.Err()
				})
				if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(start) != 0 {
					t.Errorf("after %s the call returned %v, want ECONNREFUSED at once", time.Since(start), err)
				}
			}()
		}
		synctest.Wait()
		s.dialing.dialed(syscall.ECONNREFUSED)
		synctest.Wait()
		if end := s.dialing.share(near); end != nil || s.dialing.ends() != 0 {
			t.Errorf("while the last dial has failed, calls share %v, and %d ends are left: want none", end, s.dialing.ends())
		}
		s.dialing.dialed(nil)
		if s.dialing.share(near) == nil {
			t.Error("after a dial that succeeded, calls share no end")
		}
		<-time.After(near + sharedStep) // the timer's end
	})
}

// A call that succeeds does so although a dial has failed meanwhile.
func TestFailedDialDoesNotEndACallThatIsDone(t *testing.T) {
	t.Parallel()
	s := newSharing(t)
	ctx, cancel := context.WithTimeout(t.Context(), near)
	defer cancel()
	result, err := bounded(ctx, s, func(context.Context) (int, error) {
		s.dialing.dialed(syscall.ECONNREFUSED)
		return 1, nil
	})
	if result != 1 || err != nil {
		t.Errorf("the call returned %d and %v, want its result", result, err)
	}
}
