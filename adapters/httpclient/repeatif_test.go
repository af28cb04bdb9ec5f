package httpclient_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/internal/testkit"
)

// shouldRetry follows Stripe's header.
func shouldRetry(r *http.Response) (again, known bool) {
	again, err := strconv.ParseBool(r.Header.Get("Stripe-Should-Retry"))
	return again, err == nil
}

// Case 67: RepeatIf decides before the rules of the package, for every status.
func TestRepeatIfDecidesFirst(t *testing.T) {
	t.Parallel()
	type row struct {
		status   int
		header   string
		repeated bool
	}
	testkit.EachInBubble(t, map[string]row{
		"a 503 with no":          {503, "false", false},
		"a 400 with yes":         {400, "true", true},
		"a 200 with yes":         {200, "true", true},
		"a 503 without a header": {503, "", true},
		"a 400 without a header": {400, "", false},
	}, func(t *testing.T, row row) {
		first := step{status: row.status, body: "first", header: map[string]string{"Stripe-Should-Retry": row.header}}
		shop := serverThat(first, status(http.StatusCreated))
		got := send(transportTo(t, shop, httpclient.RepeatIf(shouldRetry)), newRequest(t, "", "{}"))
		if row.repeated {
			got.expect(t, http.StatusCreated, "")
		} else {
			got.expect(t, row.status, "first")
		}
		shop.expectBodiesClosed(t)
	})
}

// The caller gets the whole body, even the part that RepeatIf reads. RepeatIf cannot read
// an endless body.
func TestRepeatIfLeavesTheBodyWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("overloaded ", 20_000)
	for name, body := range map[string]string{"short": "busy", "empty": "", "longer than 64 KiB": long} {
		for how, read := range map[string]int64{"all": 1 << 30, "two bytes": 2, "no byte": 0} {
			t.Run(name+", reads "+how, func(t *testing.T) {
				t.Parallel()
				var seen atomic.Int64
				decide := func(r *http.Response) (again, known bool) {
					n, _ := io.Copy(io.Discard, io.LimitReader(r.Body, read))
					r.Body.Close()
					seen.Store(n)
					return false, true
				}
				shop := serverThat(step{status: http.StatusServiceUnavailable, body: body})
				send(transportTo(t, shop, httpclient.RepeatIf(decide)), newRequest(t, "", "{}")).
					expect(t, http.StatusServiceUnavailable, body)
				testkit.Equal(t, seen.Load(), min(read, int64(len(body)), 64<<10), "bytes that it read")
				shop.expectBodiesClosed(t)
			})
		}
	}
}

// A call that cannot be repeated does not call RepeatIf.
func TestRepeatIfIsNotCalledAfterTheLastAttempt(t *testing.T) {
	t.Parallel()
	called := false
	decide := func(*http.Response) (again, known bool) { called = true; return true, true }
	shop := serverThat(status(http.StatusServiceUnavailable))
	send(transportTo(t, shop, httpclient.RepeatIf(decide), httpclient.MaxAttempts(1)), newRequest(t, "", "{}")).
		expect(t, http.StatusServiceUnavailable, "")
	if called {
		t.Error("RepeatIf was called after the last attempt")
	}
}
