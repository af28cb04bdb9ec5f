package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
)

// flaky breaks the connection in place of its first response.
func flaky(next http.Handler) http.Handler {
	lost := false
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if next.ServeHTTP(w, r); !lost {
			lost = true
			panic(http.ErrAbortHandler)
		}
	})
}

// The server executes the payment and the response is lost. The client repeats the
// request under the same key, and gets the stored response.
func Example() {
	charges := 0
	engine, err := core.New(memstore.New(), core.SharedScope)
	if err != nil {
		panic(err)
	}
	pay := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"payment":%d}`, charges)
	}))
	server := httptest.NewServer(flaky(pay))
	defer server.Close()

	transport, err := httpclient.New(&http.Transport{})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()

	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL+"/payments", strings.NewReader(`{"amount":1999}`))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	fmt.Println(response.StatusCode, string(body), err)
	fmt.Println("replay:", response.Header.Get("X-Idempotent-Replay"))
	fmt.Println("charges:", charges)
	// Output:
	// 201 {"payment":1} <nil>
	// replay: true
	// charges: 1
}

// The caller's own key outlives the call. A program that stores the key with the order can
// send the order again after a restart.
func Example_ownKey() {
	transport, err := httpclient.New(printing{}, httpclient.MaxAttempts(2), httpclient.Backoff(time.Millisecond, time.Second))
	if err != nil {
		panic(err)
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://shop.example/payments", strings.NewReader("{}"))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Idempotency-Key", "order-17")
	client := &http.Client{Transport: transport}
	response, err := client.Do(request)
	if err == nil {
		response.Body.Close()
	}
	if given, is := errors.AsType[*httpclient.AttemptsError](err); is {
		fmt.Println(given.Attempts, "attempts:", given.Err)
	}
	// Output:
	// order-17
	// order-17
	// 2 attempts: connection refused
}

// printing is a server that cannot be reached.
type printing struct{}

func (printing) RoundTrip(request *http.Request) (*http.Response, error) {
	fmt.Println(request.Header.Get("Idempotency-Key"))
	request.Body.Close()
	return nil, errors.New("connection refused")
}

// Two charges within one outer request need different names.
func ExampleWithCall() {
	engine, err := core.New(memstore.New(), core.SharedScope)
	if err != nil {
		panic(err)
	}
	keys := map[string]bool{}
	transport, err := httpclient.New(roundTripper(func(request *http.Request) (*http.Response, error) {
		keys[request.Header.Get("Idempotency-Key")] = true
		request.Body.Close()
		return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, nil
	}))
	if err != nil {
		panic(err)
	}
	charge := func(ctx context.Context, line string) {
		ctx = httpclient.WithCall(ctx, line)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank.example/charges", strings.NewReader("{}"))
		if err != nil {
			panic(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			panic(err)
		}
		response.Body.Close()
	}
	order := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charge(r.Context(), "line-1")
		charge(r.Context(), "line-2")
		w.WriteHeader(http.StatusBadGateway) // the client repeats the request, and the handler runs again
	}))
	for range 2 {
		outer := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("{}"))
		outer.Header.Set("Idempotency-Key", "order-17")
		order.ServeHTTP(httptest.NewRecorder(), outer)
	}
	fmt.Println("4 calls, keys:", len(keys))
	// Output: 4 calls, keys: 2
}
