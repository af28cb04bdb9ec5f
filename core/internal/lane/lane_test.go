package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

var errLost = errors.New("the connection is lost")

// road is a lane whose statements take a second. It notes the batches.
type road struct {
	Lane[int, string]
	batches [][]int
	ctx     context.Context //nolint:containedctx // of the last batch
	writes  bool
	fail    error
	decides func(request int) bool
}

func newRoad() *road {
	r := &road{Lane: Lane[int, string]{Client: "PostgreSQL client"}, decides: func(int) bool { return true }}
	r.Statements = 1
	r.Send = func(ctx context.Context, batch []*Call[int, string]) (bool, error) {
		var requests []int
		for _, c := range batch {
			requests = append(requests, c.Request)
			if r.decides(c.Request) {
				c.Decide(fmt.Sprint("batch of ", len(batch)))
			}
		}
		r.batches, r.ctx = append(r.batches, requests), ctx
		pass(time.Second / 100)
		return r.writes, errors.Join(r.fail, ctx.Err())
	}
	return r
}

// drive makes a call that takes a while if it is sent alone.
func (r *road) drive(ctx context.Context, request, bytes int, alone time.Duration) (string, error) {
	return r.Do(ctx, request, bytes, func() (string, error) {
		pass(alone)
		return "alone", nil
	})
}

// occupy sends a statement that takes a while.
func (r *road) occupy(t *testing.T, length time.Duration) {
	t.Helper()
	if result, err := r.drive(t.Context(), -1, 0, length); result != "alone" || err != nil {
		t.Errorf("the statement before returned %q and %v", result, err)
	}
}

// driven are the results of calls.
type driven struct {
	results []string
	errs    []error
}

// behind makes calls while a statement is under way, and returns their results.
func (r *road) behind(t *testing.T, calls int, bytes int) driven {
	t.Helper()
	d := driven{make([]string, calls), make([]error, calls)}
	go r.occupy(t, time.Millisecond)
	synctest.Wait()
	for n := range calls {
		go func() { d.results[n], d.errs[n] = r.drive(t.Context(), n, bytes, time.Millisecond) }()
		synctest.Wait()
	}
	pass(time.Second)
	synctest.Wait()
	return d
}

// pass lets time pass. All tests of a lane run in a bubble, which also fails if a
// goroutine is left.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // it moves the fake clock

func TestLoneCallNeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, start := newRoad(), time.Now()
		for n := range 3 {
			if result, err := r.drive(t.Context(), n, 0, 0); result != "alone" || err != nil {
				t.Errorf("it returned %q and %v, want a statement of its own", result, err)
			}
		}
		if took := time.Since(start); took != 0 || r.batches != nil {
			t.Errorf("three calls waited %s and made batches %v", took, r.batches)
		}
	})
}

func TestSecondCallDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, start := newRoad(), time.Now()
		r.Statements = 2
		go r.occupy(t, 40*time.Millisecond)
		synctest.Wait()
		go r.occupy(t, 30*time.Millisecond)
		synctest.Wait()
		if result, err := r.drive(t.Context(), 0, 0, 0); result != "alone" || err != nil || time.Since(start) != 30*time.Millisecond {
			t.Errorf("the third call returned %q and %v after %s, want it alone after the second", result, err, time.Since(start))
		}
		pass(time.Second)
		if r.batches != nil {
			t.Errorf("there were batches %v", r.batches)
		}
	})
}

// After a batch that has written, the next calls share a statement. After one that has
// read, or once no call waits any more, a second one may be sent.
func TestBatchesThatWriteFollowEachOther(t *testing.T) {
	t.Parallel()
	for _, writes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRoad()
			r.Statements, r.writes = 2, writes
			r.behind(t, 3, 0) // the last two are a batch
			waits := func() time.Duration {
				start := time.Now()
				go r.occupy(t, time.Millisecond)
				synctest.Wait()
				if result, err := r.drive(t.Context(), 1, 0, 0); result != "alone" || err != nil {
					t.Errorf("the second call returned %q and %v", result, err)
				}
				return time.Since(start)
			}
			testkit.Equal(t, waits() > 0, writes, "whether the second call waited after a batch that writes")
			pass(time.Second)
			if waited := waits(); waited > 0 {
				t.Errorf("when no call waited, the second one waited %s", waited)
			}
			pass(time.Second)
		})
	}
}

func TestCallsThatWaitAreOneBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoad()
		d := r.behind(t, 3, 0)
		if want := []string{"batch of 3", "batch of 3", "batch of 3"}; !slices.Equal(d.results, want) || errors.Join(d.errs...) != nil {
			t.Errorf("they returned %v and %v, want %v", d.results, d.errs, want)
		}
		if _, limited := r.ctx.Deadline(); limited {
			t.Error("the batch has a deadline, and its callers have none")
		}
	})
}

// Calls that are ready to run when a call is about to be sent are sent with it, and do not
// wait for its end.
func TestReadyCallsJoin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rest = batchCalls / 2 // fewer would wait, see free
		const callers = batchCalls + rest
		r, start := newRoad(), time.Now()
		r.Statements = 2
		sent := make(chan []int, 2)
		r.Send = func(_ context.Context, batch []*Call[int, string]) (bool, error) {
			var requests []int
			for _, c := range batch {
				requests = append(requests, c.Request)
				c.Decide("batch")
			}
			sent <- requests
			pass(longestWait / 2)
			return false, nil
		}
		if _, number := r.join(t.Context(), 0, 0); number == 0 {
			t.Fatal("the first call does not gather others")
		} else {
			for n := 1; n < callers; n++ {
				go func() {
					if result, err := r.drive(t.Context(), n, 0, 0); result != "batch" || err != nil {
						t.Errorf("call %d returned %q and %v", n, result, err)
					}
				}()
				synctest.Wait()
			}
			first, _ := r.gather(t.Context(), 0, 0, number)
			if <-first.ended; first.result != "batch" {
				t.Errorf("the call that gathers has %q and %v", first.result, first.err)
			}
		}
		one, other := <-sent, <-sent
		if len(one) < len(other) {
			one, other = other, one
		}
		if len(one) != batchCalls || one[0] != 0 || len(other) != rest || time.Since(start) != longestWait/2 {
			t.Errorf("batches of %d and %d calls took %s, want %d and %d at once", len(one), len(other), time.Since(start), batchCalls, rest)
		}
		synctest.Wait()
	})
}

func TestSingleCallThatWaitsIsNoBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoad()
		if d := r.behind(t, 1, 0); d.results[0] != "alone" || r.batches != nil {
			t.Errorf("it returned %v after batches %v, want a statement of its own", d, r.batches)
		}
	})
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	type test struct {
		calls, bytes int
		want         []int
	}
	testkit.EachInBubble(t, map[string]test{
		"calls": {batchCalls*2 + 2, 0, []int{batchCalls, batchCalls, 2}},
		"bytes": {5, batchBytes / 2, []int{2, 2}}, // the fifth is alone
	}, func(t *testing.T, test test) {
		r := newRoad()
		r.behind(t, test.calls, test.bytes)
		var lengths []int
		for _, batch := range r.batches {
			lengths = append(lengths, len(batch))
		}
		testkit.EqualSlices(t, lengths, test.want, "calls of the batches")
	})
}

// A call that its batch leaves undecided is sent alone, and so are calls of a batch that
// had no effect. Nobody repeats a batch whose outcome is unknown.
func TestUndecidedCallsAreSentAlone(t *testing.T) {
	t.Parallel()
	type test struct {
		fail    error
		decides func(int) bool
		want    []string
		err     error
	}
	testkit.EachInBubble(t, map[string]test{
		"one":                {nil, func(n int) bool { return n != 1 }, []string{"batch of 3", "alone", "batch of 3"}, nil},
		"all":                {nil, func(int) bool { return false }, []string{"alone", "alone", "alone"}, nil},
		"an unknown outcome": {errLost, func(n int) bool { return n == 1 }, []string{"", "", ""}, errLost},
	}, func(t *testing.T, test test) {
		r := newRoad()
		r.fail, r.decides = test.fail, test.decides
		d := r.behind(t, 3, 0)
		if !slices.Equal(d.results, test.want) || !errors.Is(errors.Join(d.errs...), test.err) {
			t.Errorf("they returned %q and %v, want %q and %v", d.results, d.errs, test.want, test.err)
		}
	})
}

func TestPanicOfBatchIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoad()
		r.decides = func(int) bool { panic("tracer") }
		for _, err := range r.behind(t, 2, 0).errs {
			if err == nil || !strings.Contains(err.Error(), "the PostgreSQL client panicked at ") {
				t.Errorf("a call returned %v, want the panic", err)
			}
		}
		if result, err := r.drive(t.Context(), 1, 0, 0); result != "alone" || err != nil {
			t.Errorf("the next call returned %q and %v", result, err)
		}
	})
}
