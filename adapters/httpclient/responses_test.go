package httpclient_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 67: every other status ends the call with its response, but an unknown 5xx counts as 500
// (RFC 9110, section 15).
func TestWhichResponsesAreRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repeated := map[int]bool{408: true, 425: true, 429: true, 500: true, 502: true, 503: true, 504: true}
		for code := 200; code <= 600; code++ {
			shop := serverThat(step{status: code, body: "first"}, step{status: http.StatusCreated, body: "second"})
			got := send(transportTo(t, shop), newRequest(t, "", "{}"))
			if repeated[code] || http.StatusText(code) == "" && code >= 500 {
				got.expect(t, http.StatusCreated, "second")
				shop.expectAttempts(t, 2)
			} else {
				got.expect(t, code, "first")
				shop.expectAttempts(t, 1)
			}
			shop.expectBodiesClosed(t)
		}
	})
}

// docs/clients.md: a replay is final, also of a 500, because another attempt gets the same.
func TestReplaysAreNotRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for i, code := range []int{408, 409, 425, 429, 500, 502, 503, 504, 500} {
			marker := []string{"X-Idempotent-Replay", "Idempotent-Replayed"}[i/8]
			stored := step{status: code, body: "stored", header: map[string]string{marker: "true", "Retry-After": "1"}}
			shop := serverThat(failing(), stored)
			send(transportTo(t, shop), newRequest(t, "", "{}")).expect(t, code, "stored")
			shop.expectAttempts(t, 2)
			shop.expectBodiesClosed(t)

			shop = serverThat(stored, status(http.StatusCreated))
			repeat := httpclient.RepeatIf(func(*http.Response) (again, known bool) { return true, true })
			send(transportTo(t, shop, repeat, httpclient.MaxAttempts(2)), newRequest(t, "", "{}")).expect(t, http.StatusCreated, "")
		}
	})
}

// Case 67: a conflict is repeated if it has a Retry-After or oncekey's code, in any form
// of the problem.
func TestWhichConflictsAreRepeated(t *testing.T) {
	t.Parallel()
	inProgress := problem(http.StatusConflict, "in_progress")
	with := func(change func(*step)) step {
		changed := step{status: inProgress.status, body: inProgress.body, header: map[string]string{"Content-Type": "application/problem+json"}}
		change(&changed)
		return changed
	}
	type row struct {
		first    step
		repeated bool
	}
	testkit.EachInBubble(t, map[string]row{
		"in progress":            {inProgress, true},
		"with a charset":         {with(func(s *step) { s.header["Content-Type"] = "Application/Problem+JSON; charset=utf-8" }), true},
		"another code":           {problem(http.StatusConflict, "not_replayable"), false},
		"key expired":            {problem(http.StatusConflict, "key_expired"), false},
		"outcome unknown":        {problem(http.StatusConflict, "outcome_unknown"), false},
		"no content type":        {with(func(s *step) { s.header = nil }), false},
		"another content type":   {with(func(s *step) { s.header["Content-Type"] = "application/json" }), false},
		"not JSON":               {with(func(s *step) { s.body = "in_progress" }), false},
		"a code of another type": {with(func(s *step) { s.body = `{"code":["in_progress"]}` }), false},
		"a name of another case": {with(func(s *step) { s.body = `{"Code":"in_progress"}` }), false},
		"a code further in":      {with(func(s *step) { s.body = `{"problem":{"code":"in_progress"}}` }), false},
		"cut off":                {with(func(s *step) { s.body = `{"code":"in_progress"` }), false},
		"empty":                  {with(func(s *step) { s.body = "" }), false},
		"too long to be looked at": {
			with(func(s *step) { s.body = `{"code":"in_progress","detail":"` + strings.Repeat("x", 64<<10) + `"}` }), false,
		},
		"Retry-After, no body": {with(func(s *step) { s.body, s.header = "", map[string]string{"Retry-After": "1"} }), true},
		"Retry-After, Stripe's form": {with(func(s *step) {
			s.body = `{"error":{"type":"idempotency_error"}}`
			s.header = map[string]string{"Retry-After": "1", "Content-Type": "application/json"}
		}), true},
		"Retry-After, another code": {with(func(s *step) { s.body = `{"code":"busy"}`; s.header["Retry-After"] = "1" }), true},
		"Retry-After of a 422":      {step{status: 422, header: map[string]string{"Retry-After": "1"}}, false},
		"the code of a 422":         {problem(http.StatusUnprocessableEntity, "in_progress"), false},
	}, func(t *testing.T, row row) {
		shop := serverThat(row.first, status(http.StatusCreated))
		got := send(transportTo(t, shop), newRequest(t, "", "{}"))
		if row.repeated {
			got.expect(t, http.StatusCreated, "")
			shop.expectAttempts(t, 2)
		} else {
			got.expect(t, row.first.status, row.first.body) // the peek leaves the body whole
			shop.expectAttempts(t, 1)
		}
		shop.expectBodiesClosed(t)
	})
}

// After the last attempt the caller gets the whole last response.
func TestLastResponseIsReturned(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("overloaded ", 20_000) // longer than the read-ahead
	testkit.EachInBubble(t, map[string]step{
		"short":       {status: http.StatusServiceUnavailable, body: "overloaded", header: map[string]string{"X-Node": "7"}},
		"long":        {status: http.StatusInternalServerError, body: long, header: map[string]string{"X-Node": "7"}},
		"in progress": {status: http.StatusConflict, body: `{"code":"in_progress"}`, header: map[string]string{"X-Node": "7", "Content-Type": "application/problem+json"}},
	}, func(t *testing.T, last step) {
		shop := serverThat(failing(), last)
		got := send(transportTo(t, shop, httpclient.MaxAttempts(4)), newRequest(t, "", "{}"))
		got.expect(t, last.status, last.body)
		testkit.Equal(t, got.header.Get("X-Node"), "7", "the response's header is %v", got.header)
		shop.expectAttempts(t, 4)
		shop.expectBodiesClosed(t)
	})
}

// A call is repeated after a network error. The last error is wrapped, with the number of
// attempts and the time.
func TestNetworkErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := serverThat(failing(), failing(), status(http.StatusCreated))
		send(transportTo(t, shop), newRequest(t, "", "{}")).expect(t, http.StatusCreated, "")
		shop.expectAttempts(t, 3)

		shop = serverThat(status(http.StatusBadGateway), failing())
		got := send(transportTo(t, shop, httpclient.MaxAttempts(3)), newRequest(t, "", "{}"))
		got.expectGivenUp(t, 3, errReset)
		given := got.givenUp(t)
		attempts := shop.expectAttempts(t, 3)
		testkit.Equal(t, given.Elapsed, attempts[2].at.Sub(attempts[0].at), "the time in the error")
		if text := given.Error(); !strings.HasPrefix(text, "httpclient: no response after 3 attempts in ") || !strings.HasSuffix(text, "s: "+errReset.Error()) {
			t.Errorf("the error is %q", text)
		}
		if given.Timeout() {
			t.Error("a reset connection is not a timeout")
		}

		got = send(transportTo(t, serverThat(failing()), httpclient.MaxAttempts(1)), newRequest(t, "", "{}"))
		got.expectGivenUp(t, 1, errReset)
		if want := "httpclient: no response after 1 attempt in 0s: " + errReset.Error(); got.err.Error() != want {
			t.Errorf("the error is %q, want %q", got.err, want)
		}
	})
}

// A nil body counts as an empty body, as in http.Client.
func TestResponseWithoutABody(t *testing.T) {
	t.Parallel()
	next := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusNoContent}, nil
	})
	send(transportTo(t, next), newRequest(t, "", "{}")).expect(t, http.StatusNoContent, "")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// OnRetry is called for every repeated failure, and for no other.
func TestOnRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := serverThat(failing(), status(http.StatusTooManyRequests), status(http.StatusCreated))
		var retries []httpclient.Retry
		transport := transportTo(t, shop, httpclient.OnRetry(func(r httpclient.Retry) { retries = append(retries, r) }))
		request := newRequest(t, "", "{}")
		send(transport, request).expect(t, http.StatusCreated, "")

		attempts := shop.expectAttempts(t, 3)
		if len(retries) != 2 {
			t.Fatalf("got %d calls of OnRetry, want 2", len(retries))
		}
		for i, want := range []httpclient.Retry{{Err: errReset}, {Status: http.StatusTooManyRequests}} {
			want.Request, want.Key, want.Attempts = request, attempts[0].key, i+1
			want.Wait = attempts[i+1].at.Sub(attempts[i].at)
			testkit.Equal(t, retries[i], want, "retry %d", i)
		}

		request.Header.Set("Idempotency-Key", "mine")
		send(transportTo(t, serverThat(failing(), status(200)), httpclient.OnRetry(func(r httpclient.Retry) { retries = append(retries, r) })), request)
		testkit.Equal(t, retries[len(retries)-1].Key, "mine", "the key")
	})
}
