package httpclient_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
)

const firstSent = "Repeatability-First-Sent"

// Each key of its own has the time of its making, by the clock of now. It needs no header.
func TestKeysHaveTheirTime(t *testing.T) {
	t.Parallel()
	for _, later := range []time.Duration{48 * time.Hour, 0} { // the clock of the second bubble is behind
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(later) //nolint:forbidigo // the bubble's clock, not the machine's
			shop := serverThat(status(http.StatusServiceUnavailable), status(http.StatusCreated))
			now := time.Now()
			send(transportTo(t, shop), newRequest(t, http.MethodPost, "{}")).expect(t, http.StatusCreated, "")
			got := shop.expectAttempts(t, 2)
			if made, has := core.KeyTime(got[0].key); !has || !made.Equal(now.Truncate(time.Millisecond)) || got[1].header[firstSent] != nil {
				t.Errorf("the key %s has the time %v, %v, want %v; the header is %v", got[0].key, made, has, now, got[1].header)
			}
		})
	}
}

// A derived key has no time, and is sent with that of the outer key, in each run and attempt.
func TestDerivedKeysAreSentWithTheOuterTime(t *testing.T) {
	t.Parallel()
	const timed = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f" // of RFC 9562, appendix A.6
	shop := serverThat(status(http.StatusServiceUnavailable), status(http.StatusCreated))
	transport := transportTo(t, shop, quickly())
	const url = "http://shop.test/charges"
	order := orders(t, func(ctx context.Context) {
		send(transport, call(ctx, http.MethodPost, url, ""))
		own := call(ctx, http.MethodPost, url, "")
		own.Header.Set("Idempotency-Key", "mine")
		send(transport, own)
		told := call(ctx, http.MethodPatch, url, "")
		told.Header.Set(firstSent, "Sun, 06 Nov 1994 08:49:37 GMT")
		send(transport, told)
		send(transport, call(ctx, http.MethodGet, url, ""))
		if told.Header.Get("Idempotency-Key") != "" || own.Header.Get(firstSent) != "" {
			t.Error("the caller's header was changed")
		}
	})
	order(timed)
	order(timed)
	order("order-17")
	const outer = "Tue, 22 Feb 2022 19:22:22 GMT"
	const theirs = "Sun, 06 Nov 1994 08:49:37 GMT"
	want := []string{outer, outer, "", theirs, "", outer, "", theirs, "", "", "", theirs, ""} // the first call has two attempts
	got := make([]string, 0, len(want))
	for _, attempt := range shop.attempts() {
		got = append(got, attempt.header.Get(firstSent))
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the calls were first sent at\n%q, want\n%q", got, want)
	}
}

// A redirect that keeps the key keeps its time. A key of CheckRedirect is the caller's.
func TestRedirectKeepsTheTimeOfTheKey(t *testing.T) {
	t.Parallel()
	const outer = "Tue, 22 Feb 2022 19:22:22 GMT"
	type row struct {
		status    int
		key, want string
	}
	testkit.Each(t, map[string]row{
		"the same operation": {http.StatusTemporaryRedirect, "", outer},
		"another operation":  {http.StatusSeeOther, "", ""},
		"another key":        {http.StatusTemporaryRedirect, "next", ""},
	}, func(t *testing.T, row row) {
		var sent []string
		next := roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Body != nil {
				request.Body.Close()
			}
			sent = append(sent, request.Header.Get(firstSent))
			response := &http.Response{StatusCode: http.StatusCreated, Header: http.Header{}, Body: http.NoBody, Request: request}
			if request.URL.Path == "/a" {
				response.StatusCode = row.status
				response.Header.Set("Location", "/b")
			}
			return response, nil
		})
		client := &http.Client{Transport: transportTo(t, next), CheckRedirect: func(next *http.Request, _ []*http.Request) error {
			if row.key != "" {
				next.Header.Set("Idempotency-Key", row.key)
			}
			return nil
		}}
		orders(t, func(ctx context.Context) {
			response, err := client.Do(call(ctx, http.MethodPost, "http://shop.test/a", ""))
			testkit.Must(t, err)
			response.Body.Close()
		})("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
		if len(sent) != 2 || sent[0] != outer || sent[1] != row.want {
			t.Errorf("the two requests were first sent at %q, want %q for the second", sent, row.want)
		}
	})
}
