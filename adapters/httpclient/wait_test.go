package httpclient_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/internal/testkit"
)

// waits returns the time between attempts.
func (s *server) waits() []time.Duration {
	var waits []time.Duration
	attempts := s.attempts()
	for i := 1; i < len(attempts); i++ {
		waits = append(waits, attempts[i].at.Sub(attempts[i-1].at))
	}
	return waits
}

// min(base*2^n + jitter, 30s), the jitter from 0 to base*2^n.
func TestWaitsGrowAndAreCapped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rounds = 200
		early := make([]int, 9) // number of waits in the lower half of the range
		for range rounds {
			shop := serverThat(failing())
			send(transportTo(t, shop, httpclient.MaxAttempts(10), httpclient.MaxTime(time.Hour)), newRequest(t, "", "{}")).
				expectGivenUp(t, 10, errReset)
			shop.expectAttempts(t, 10)
			for i, wait := range shop.waits() {
				base := min(200*time.Millisecond<<i, 30*time.Second)
				if wait < base || wait > min(2*base, 30*time.Second) {
					t.Fatalf("wait %d is %v, want %v to %v", i+1, wait, base, min(2*base, 30*time.Second))
				}
				if wait < base+base/2 {
					early[i]++
				}
			}
		}
		for i := range 7 { // waits below the cap
			if early[i] < rounds/4 || early[i] > rounds*3/4 {
				t.Errorf("wait %d was in the lower half %d times out of %d: the jitter is not even", i+1, early[i], rounds)
			}
		}
		testkit.Equal(t, early[8], rounds, "ninth waits of 30s")
	})
}

// The longest possible waits do not overflow.
func TestLongestBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := serverThat(unavailable("9223372036"), status(http.StatusCreated))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		const longest = time.Duration(math.MaxInt64)
		send(transportTo(t, shop, httpclient.Backoff(longest, longest), httpclient.MaxTime(longest)), newRequest(t, "", "{}").WithContext(ctx)).
			expect(t, http.StatusServiceUnavailable, "")
	})
}

// After 64 doublings a wait is still the longest wait, and not zero again.
func TestBackoffIsTheCallersChoice(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		first, longest time.Duration
		attempts       int
	}{{time.Second, 3 * time.Second, 5}, {3, time.Second, 100}} {
		synctest.Test(t, func(t *testing.T) {
			shop := serverThat(failing())
			opts := []httpclient.Option{httpclient.Backoff(row.first, row.longest), httpclient.MaxAttempts(row.attempts), httpclient.MaxTime(time.Hour)}
			send(transportTo(t, shop, opts...), newRequest(t, "", "{}"))
			shop.expectAttempts(t, row.attempts)
			for i, wait := range shop.waits() {
				least := row.longest
				if i < 29 { // 3ns<<28 is 0.8s
					least = min(row.first<<i, row.longest)
				}
				if wait < least || wait > min(2*least, row.longest) {
					t.Errorf("wait %d is %v, want %v to %v", i+1, wait, least, min(2*least, row.longest))
				}
			}
		})
	}
}

// The client waits for Retry-After, up to the longest wait, plus jitter.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const base = 200 * time.Millisecond
	type row struct {
		after, date string
		least       time.Duration
	}
	testkit.Each(t, map[string]row{
		"seconds":                       {"7", "", 7 * time.Second},
		"zero":                          {"0", "", base},
		"less than the backoff":         {"0", "", base},
		"more than the longest wait":    {"3600", "", 30 * time.Second},
		"more than a number holds":      {"99999999999999999999999", "", 30 * time.Second},
		"a date":                        {"Sat, 01 Jan 2000 00:00:09 GMT", "", 9 * time.Second},
		"a date by another clock":       {"Fri, 31 Dec 1999 20:00:05 GMT", "Fri, 31 Dec 1999 20:00:00 GMT", 5 * time.Second},
		"a date that has passed":        {"Fri, 31 Dec 1999 20:00:05 GMT", "", base},
		"a date far away":               {"Fri, 31 Dec 2100 20:00:05 GMT", "", 30 * time.Second},
		"a date of the old kind":        {"Saturday, 01-Jan-00 00:00:09 GMT", "", 9 * time.Second},
		"neither":                       {"soon", "", base},
		"negative":                      {"-5", "", base},
		"a date, and an unreadable Now": {"Sat, 01 Jan 2000 00:00:09 GMT", "noon", 9 * time.Second},
	}, func(t *testing.T, row row) {
		synctest.Test(t, func(t *testing.T) { // it begins on 2000-01-01 00:00:00 UTC
			first := unavailable(row.after)
			if row.date != "" {
				first.header["Date"] = row.date
			}
			shop := serverThat(first, status(http.StatusCreated))
			send(transportTo(t, shop), newRequest(t, "", "{}")).expect(t, http.StatusCreated, "")
			shop.expectAttempts(t, 2)
			if wait := shop.waits()[0]; wait < row.least || wait > min(row.least+base, 30*time.Second) {
				t.Errorf("it waited %v, want %v and a jitter of at most %v", wait, row.least, base)
			}
		})
	})
}

// If a wait would end after MaxTime, or after the caller's own deadline, the caller gets the
// response at once.
func TestMaxTimeEndsTheCall(t *testing.T) {
	t.Parallel()
	type row struct{ most, deadline time.Duration }
	testkit.EachInBubble(t, map[string]row{
		"MaxTime":      {10 * time.Second, time.Hour},
		"the deadline": {time.Hour, 10 * time.Second},
	}, func(t *testing.T, row row) {
		ctx, cancel := context.WithTimeout(t.Context(), row.deadline)
		defer cancel()
		shop := serverThat(unavailable("4"))
		begun := time.Now()
		send(transportTo(t, shop, httpclient.MaxTime(row.most)), newRequest(t, "", "{}").WithContext(ctx)).
			expect(t, http.StatusServiceUnavailable, "")
		shop.expectAttempts(t, 3) // at 0, 4 and 8 seconds, and a little
		if took := time.Since(begun); took > 9*time.Second {
			t.Errorf("it took %v, although no time is left for another attempt", took)
		}
	})
}

// MaxTime ends a running attempt, and a hanging attempt is repeated.
func TestAttemptsThatHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := serverThat(step{hang: true}, status(http.StatusCreated))
		begun := time.Now()
		send(transportTo(t, shop), newRequest(t, "", "{}")).expect(t, http.StatusCreated, "")
		shop.expectAttempts(t, 2)
		if took := time.Since(begun); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("the attempt that hung was cut after about %v, want 30s", took)
		}

		shop = serverThat(step{hang: true})
		begun = time.Now()
		got := send(transportTo(t, shop, httpclient.MaxTime(20*time.Second), httpclient.AttemptTimeout(8*time.Second)), newRequest(t, "", "{}"))
		got.expectGivenUp(t, 3, context.DeadlineExceeded)
		given := got.givenUp(t)
		if took := time.Since(begun); took != 20*time.Second || given.Elapsed != took {
			t.Errorf("it took %v and reports %v, want 20s", took, given.Elapsed)
		}
		if !given.Timeout() || strings.Contains(given.Error(), "within 8s") {
			t.Errorf("%v is a timeout: %t; the last attempt had less than its 8s", given, given.Timeout())
		}
	})
}

// A response that stops in the middle is a failed attempt, and its time belongs to the
// attempt.
func TestResponseThatHangsInItsBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		next := roundTripper(func(request *http.Request) (*http.Response, error) {
			attempts++
			if attempts == 1 {
				return &http.Response{StatusCode: http.StatusCreated, ContentLength: 4, Body: hangingBody{request.Context()}}, nil
			}
			return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, nil
		})
		begun := time.Now()
		send(transportTo(t, next, httpclient.AttemptTimeout(5*time.Second)), newRequest(t, "", "")).expect(t, http.StatusCreated, "")
		if took := time.Since(begun); attempts != 2 || took < 5*time.Second || took > 6*time.Second {
			t.Errorf("%d attempts in %v, want 2 in little more than 5s", attempts, took)
		}
	})
}

type hangingBody struct{ ctx context.Context }

func (b hangingBody) Read([]byte) (int, error) { <-b.ctx.Done(); return 0, b.ctx.Err() }
func (b hangingBody) Close() error             { return nil }

var errCallerLeft = errors.New("the caller left")

// Cancellation by the caller ends the call, during an attempt or between attempts.
func TestCancellation(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]step{"in an attempt": {hang: true}, "between attempts": unavailable("20"), "after an error": failing()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(150*time.Millisecond, func() { cancel(errCallerLeft) })
				shop := serverThat(first)
				begun := time.Now()
				want := errCallerLeft
				if first.hang {
					want = context.Canceled // the next RoundTripper's error
				}
				got := send(transportTo(t, shop), newRequest(t, "", "{}").WithContext(ctx))
				got.expectGivenUp(t, 1, want)
				given := got.givenUp(t)
				shop.expectAttempts(t, 1)
				testkit.Equal(t, time.Since(begun), 150*time.Millisecond, "the time until it notices")
				if last := map[string]string{"between attempts": "status 503", "after an error": errReset.Error()}[name]; !strings.Contains(given.Error(), last) {
					t.Errorf("%v does not contain the last attempt's error %q", given, last)
				}
			})
		})
	}
}
