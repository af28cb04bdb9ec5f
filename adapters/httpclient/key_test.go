package httpclient_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/internal/testkit"
)

var uuidV7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// Which methods get a key, and which are repeated without one (RFC 9110, 9.2.2).
func TestMethods(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]struct{ key, repeated bool }{
		http.MethodPost: {true, true}, http.MethodPatch: {true, true},
		http.MethodGet: {false, true}, http.MethodHead: {false, true}, http.MethodOptions: {false, true},
		http.MethodTrace: {false, true}, http.MethodPut: {false, true}, http.MethodDelete: {false, true},
		http.MethodConnect: {}, "LOCK": {}, "post": {}, "": {false, true}, // net/http takes it for a GET
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shop := serverThat(failing(), status(http.StatusOK))
				request := newRequest(t, method, "{}")
				request.Method = method
				got := send(transportTo(t, shop), request)
				attempts := shop.attempts()
				if has := uuidV7.MatchString(attempts[0].key); has != want.key || !has && attempts[0].key != "" {
					t.Errorf("its key is %q", attempts[0].key)
				}
				if want.repeated {
					got.expect(t, http.StatusOK, "")
					shop.expectAttempts(t, 2)
				} else if got.err != errReset { //nolint:errorlint // the error of the next RoundTripper, unwrapped
					t.Errorf("got %v after %d attempts, want %v", got.err, len(attempts), errReset)
				}
			})
		})
	}
}

func TestMethodsAreTheCallersChoice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			method        string
			key, repeated bool
		}{{"PUT", true, true}, {"LOCK", true, true}, {"POST", false, false}} {
			shop := serverThat(failing(), status(http.StatusOK))
			send(transportTo(t, shop, httpclient.Methods("PUT", "LOCK")), newRequest(t, row.method, "{}"))
			attempts := shop.attempts()
			if (attempts[0].key != "") != row.key || (len(attempts) == 2) != row.repeated {
				t.Errorf("%s: key %q, %d attempts", row.method, attempts[0].key, len(attempts))
			}
		}
	})
}

// The caller's own key is kept, with any spelling of the header's name, and makes the
// request repeatable.
func TestCallersKeyIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, method := range []string{http.MethodPost, http.MethodPut, "LOCK"} {
			shop := serverThat(status(http.StatusBadGateway), status(http.StatusOK))
			request := newRequest(t, method, "{}")
			request.Header.Set("Idempotency-Key", "order-17")
			send(transportTo(t, shop), request).expect(t, http.StatusOK, "")
			testkit.Equal(t, shop.expectAttempts(t, 2)[0].key, "order-17", "%s was sent with", method)
		}

		asSpelled := strings.ToLower("Idempotency-Key") // not the canonical spelling
		shop := serverThat(failing(), status(http.StatusOK))
		request := newRequest(t, "", "{}")
		request.Header[asSpelled] = []string{"order-17"}
		send(transportTo(t, shop), request).expect(t, http.StatusOK, "")
		if got := shop.expectAttempts(t, 2); got[1].key != "" || got[1].header[asSpelled][0] != "order-17" {
			t.Errorf("it was sent with %v", got[1].header)
		}
	})
}

// Case 66: a header without a value is not a key. The call gets a key, under one name.
func TestEmptyHeaderIsNoKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, values := range map[string][]string{
			"Idempotency-Key": nil, "Idempotency-KEY": {}, "idempotency-key": {""}, "IDEMPOTENCY-KEY": {" \t", ""},
		} {
			shop := serverThat(failing(), status(http.StatusOK))
			request := newRequest(t, "", "{}")
			request.Header[name] = values
			send(transportTo(t, shop), request).expect(t, http.StatusOK, "")
			for _, attempt := range shop.expectAttempts(t, 2) {
				if !uuidV7.MatchString(attempt.key) || len(attempt.header) != 1 || len(attempt.header["Idempotency-Key"]) != 1 {
					t.Errorf("%s %q was sent as %v", name, values, attempt.header)
				}
			}
			testkit.Equal(t, len(request.Header[name]), len(values), "the caller's header became %v", request.Header)

			shop = serverThat(failing(), status(http.StatusOK))
			lock := newRequest(t, "LOCK", "{}")
			lock.Header[name] = values
			testkit.Equal(t, send(transportTo(t, shop), lock).err, errReset, "a LOCK without a key was repeated")
		}
	})
}

// Two calls are two operations.
func TestEveryCallHasAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := serverThat(status(http.StatusCreated))
		transport := transportTo(t, shop)
		request := newRequest(t, "", "{}")
		for range 100 {
			again := request.Clone(httpclient.WithCall(t.Context(), "the same")) // no effect outside a guarded request
			send(transport, again)
		}
		seen := map[string]bool{}
		for _, attempt := range shop.attempts() {
			seen[attempt.key] = true
		}
		testkit.Equal(t, len(seen), 100, "keys of 100 calls")
	})
}

func TestHeaderIsTheCallersChoice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := serverThat(failing(), status(http.StatusOK))
		send(transportTo(t, shop, httpclient.Header("paypal-request-id")), newRequest(t, "", "{}"))
		for _, attempt := range shop.expectAttempts(t, 2) {
			if id := attempt.header.Get("PayPal-Request-Id"); !uuidV7.MatchString(id) || attempt.key != "" {
				t.Errorf("it was sent with %v", attempt.header)
			}
		}
	})
}

// RoundTrip does not change the caller's request.
func TestRequestIsNotChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := roundTripper(func(request *http.Request) (*http.Response, error) {
			testkit.Equal(t, request.Header.Get("X-Left-Behind"), "", "an attempt has the header of the previous attempt")
			request.Header.Set("X-Left-Behind", "1")
			return nil, errReset
		})
		request := newRequest(t, "", "{}")
		request.Header.Set("X-Order", "17")
		before := *request
		header := request.Header.Clone()
		send(transportTo(t, next, httpclient.MaxAttempts(3)), request).expectGivenUp(t, 3, errReset)
		if len(request.Header) != 1 || request.Header.Get("X-Order") != header.Get("X-Order") {
			t.Errorf("the caller's header became %v", request.Header)
		}
		if request.Body != before.Body || request.GetBody == nil || request.Context() != before.Context() || request.URL != before.URL {
			t.Error("the caller's request was changed")
		}
	})
}

// A request may have a nil header.
func TestRequestWithoutAHeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := serverThat(failing(), status(http.StatusCreated))
		request := newRequest(t, "", "{}")
		request.Header = nil
		send(transportTo(t, shop), request).expect(t, http.StatusCreated, "")
		if got := shop.expectAttempts(t, 2); got[0].key == "" || request.Header != nil {
			t.Errorf("sent with the key %q; the caller's header is %v", got[0].key, request.Header)
		}
	})
}

// Requests that are not plain HTTP go to the next RoundTripper unchanged.
func TestWhatPassesStraightThrough(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(*http.Request){
		"an upgrade":     func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
		"another scheme": func(r *http.Request) { r.URL.Scheme = "ftp" },
		"no host":        func(r *http.Request) { r.URL.Host = "" },
		"no URL":         func(r *http.Request) { r.URL = nil },
	}, func(t *testing.T, change func(*http.Request)) {
		var got []*http.Request
		next := roundTripper(func(request *http.Request) (*http.Response, error) {
			got = append(got, request)
			return nil, errReset
		})
		request := newRequest(t, "", "{}")
		change(request)
		testkit.Equal(t, send(transportTo(t, next), request).err, errReset, "send(transportTo(t, next), request).err")
		if len(got) != 1 || got[0] != request {
			t.Errorf("the next RoundTripper was given %v", got)
		}
	})
}

// New refuses an invalid option, with its name and value.
func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for want, option := range map[string]httpclient.Option{
		`Header is ""`:                httpclient.Header(""),
		`Header is "a b"`:             httpclient.Header("a b"),
		`Methods has "post"`:          httpclient.Methods("PUT", "post"),
		`Methods has "PO ST"`:         httpclient.Methods("PO ST"),
		`Methods has "*"`:             httpclient.Methods("*"),
		`MaxAttempts is 0`:            httpclient.MaxAttempts(0),
		`MaxTime is 0s`:               httpclient.MaxTime(0),
		`AttemptTimeout is -1ns`:      httpclient.AttemptTimeout(-1),
		`Backoff is 0s and 1ns`:       httpclient.Backoff(0, 1),
		`Backoff is 2ns and 1ns`:      httpclient.Backoff(2, 1),
		`MaxBufferedBody is -1`:       httpclient.MaxBufferedBody(-1),
		`OnRetry is given nil: give`:  httpclient.OnRetry(nil),
		`RepeatIf is given nil: give`: httpclient.RepeatIf(nil),
		`option 1 of New is nil`:      nil,
	} {
		if transport, err := httpclient.New(nil, option); err == nil || transport != nil || !strings.HasPrefix(err.Error(), "httpclient: "+want) {
			t.Errorf("got %v, want an error that begins with %q", err, want)
		}
	}
	if _, err := httpclient.New(nil, httpclient.MaxAttempts(1), httpclient.Methods(), httpclient.MaxBufferedBody(0), httpclient.Backoff(1, 1)); err != nil {
		t.Errorf("sensible options are refused: %v", err)
	}
}
