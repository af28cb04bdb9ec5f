package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// A caller leaves at once, and its call is not sent unless it was sent before. The other
// callers get their results.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	type test struct {
		after time.Duration
		want  [][]int
	}
	testkit.EachInBubble(t, map[string]test{
		"before the batch is sent": {0, [][]int{{1, 2}}},
		"while the batch is sent":  {time.Second / 200, [][]int{{0, 1, 2}}},
	}, func(t *testing.T, test test) {
		r := newRoad()
		ctx, cancel := context.WithCancel(t.Context())
		go r.occupy(t, time.Millisecond)
		synctest.Wait()
		left := make(chan time.Time, 1)
		go func() {
			if _, err := r.drive(ctx, 0, 0, 0); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that left got %v", err)
			}
			left <- time.Now()
		}()
		synctest.Wait()
		results := make(chan string, 2)
		for n := range 2 {
			go func() {
				result, err := r.drive(t.Context(), n+1, 0, 0)
				if err != nil {
					t.Error(err)
				}
				results <- result
			}()
			synctest.Wait()
		}
		pass(test.after)
		cancelled := time.Now()
		cancel()
		testkit.Equal(t, (<-left).Sub(cancelled), 0, "the time until the caller left")
		for range 2 {
			testkit.Equal(t, <-results, fmt.Sprint("batch of ", len(test.want[0])), "the result of another caller")
		}
		synctest.Wait()
		if !slices.EqualFunc(r.batches, test.want, slices.Equal) {
			t.Errorf("the batches are %v, want %v", r.batches, test.want)
		}
	})
}

// A caller that leaves in the moment when it may send its statement lets the next go on.
func TestCallerLeavesWithTheLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // in which the time until a statement is overdue does not pass
		r := newRoad()
		before := r.start()
		c, _ := r.join(t.Context(), 0, 0)
		r.end(before)
		if c.alone == 0 || len(r.running) != 1 {
			t.Fatalf("the call has statement %d, and %v are under way", c.alone, r.running)
		}
		r.leave(c)
		testkit.Equal(t, len(r.running), 0, "statements %v are under way", r.running)
	})
}

// The deadline of a batch is the last of its callers'.
func TestBatchHasTheLastDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoad()
		go r.occupy(t, time.Millisecond)
		synctest.Wait()
		start := time.Now()
		for n, limit := range []time.Duration{2 * time.Second, time.Minute, time.Second} {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				if result, err := r.drive(ctx, n, 0, 0); result != "batch of 3" || err != nil {
					t.Errorf("a call returned %q and %v", result, err)
				}
			}()
			synctest.Wait() // so that the last deadline is not the last call's
		}
		pass(time.Second / 2)
		synctest.Wait()
		if deadline, _ := r.ctx.Deadline(); deadline.Sub(start) != time.Minute {
			t.Errorf("the batch has %s, want a minute", deadline.Sub(start))
		}
	})
}

// A statement that waits for a locked row, or for a frozen server, holds the next batch up
// for a moment only.
func TestSlowStatementDoesNotHoldTheLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, start := newRoad(), time.Now()
		go r.occupy(t, time.Hour)
		synctest.Wait()
		ended := make(chan time.Duration, 4)
		for range 2 {
			for n := range 2 {
				go func() {
					if result, err := r.drive(t.Context(), n, 0, 0); err != nil {
						t.Errorf("a call returned %q and %v", result, err)
					}
					ended <- time.Since(start)
				}()
				pass(longestWait / 2) // the second call makes the first wait no longer
			}
			pass(time.Second - longestWait)
		}
		for range 2 {
			if first := <-ended; first > longestWait*3/2 {
				t.Errorf("a call of the first batch took %s", first)
			}
		}
		for range 2 { // they find no statement under way that counts
			if second := <-ended - time.Second; second > longestWait {
				t.Errorf("a later call took %s", second)
			}
		}
		pass(time.Hour) // its end changes nothing
		if result, err := r.drive(t.Context(), 1, 0, 0); result != "alone" || err != nil || len(r.running) != 0 {
			t.Errorf("afterwards a call returned %q and %v, and the statements %v count", result, err, r.running)
		}
	})
}

// Beside a batch of eight, four calls are sent at once. Three wait for its end, and a call
// beside a batch of three does not.
func TestFewCallsWaitBesideABatch(t *testing.T) {
	t.Parallel()
	const roundTrip = 10 * time.Millisecond
	for _, c := range []struct {
		before, calls int
		wait          time.Duration
	}{{8, 4, 0}, {8, 3, roundTrip / 2}, {3, 1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRoad()
			r.Statements = 2
			go r.occupy(t, time.Millisecond)
			synctest.Wait()
			go r.occupy(t, time.Millisecond)
			synctest.Wait()
			for n := range c.before {
				go func() { _, _ = r.drive(t.Context(), n, 0, 0) }()
				synctest.Wait()
			}
			pass(time.Millisecond + roundTrip/2)
			start, ends := time.Now(), make(chan time.Duration, c.calls)
			for n := range c.calls {
				go func() {
					_, _ = r.drive(t.Context(), n, 0, roundTrip)
					ends <- time.Since(start)
				}()
				synctest.Wait()
			}
			for range c.calls {
				testkit.Equal(t, <-ends, c.wait+roundTrip, "%d calls beside a batch of %d ended after", c.calls, c.before)
			}
		})
	}
}

// A statement counts as overdue only if a call has waited for it so long.
func TestWaitEndsWithItsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoad()
		go r.occupy(t, time.Millisecond)
		synctest.Wait()
		go r.occupy(t, time.Hour) // sent after a millisecond
		pass(time.Millisecond)
		synctest.Wait()
		if r.overdue.Stop() {
			t.Error("a timer runs, and no call waits")
		}
		pass(longestWait)
		start := time.Now()
		if result, err := r.drive(t.Context(), 0, 0, 0); result != "alone" || err != nil || time.Since(start) != longestWait {
			t.Errorf("the call returned %q and %v after %s, want it after %s", result, err, time.Since(start), longestWait)
		}
		pass(time.Hour)
	})
}
