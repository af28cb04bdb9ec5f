package httpclient_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// orders is a guarded service whose handler calls the shop. It responds with 500, so that
// a repeated request runs the handler again.
func orders(t *testing.T, handle func(context.Context)) func(key string) {
	t.Helper()
	engine, err := core.New(memstore.New(), core.SharedScope)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.End(t, engine) })
	handler := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handle(r.Context())
		w.WriteHeader(http.StatusInternalServerError)
	}))
	return func(key string) {
		testkit.Serve(handler, testkit.Post(context.Background(), "/orders", key, "{}"))
	}
}

// A repeated outer request makes the same calls under the same keys.
func TestCallsGetKeysDerivedFromTheOuterKey(t *testing.T) {
	t.Parallel()
	shop := serverThat(status(http.StatusCreated))
	transport := transportTo(t, shop)
	const post, charges = http.MethodPost, "http://shop.test/charges"
	calls := []func(context.Context) *http.Request{
		func(ctx context.Context) *http.Request { return call(ctx, post, charges, "") },
		func(ctx context.Context) *http.Request {
			return call(httpclient.WithCall(ctx, "line-2"), post, charges, "")
		},
		func(ctx context.Context) *http.Request { // the later name applies
			return call(httpclient.WithCall(httpclient.WithCall(ctx, "line-2"), "line-3"), post, charges, "")
		},
		func(ctx context.Context) *http.Request { return call(ctx, http.MethodPatch, charges, "") },
		func(ctx context.Context) *http.Request { return call(ctx, post, "http://shop.test/refunds", "") },
		func(ctx context.Context) *http.Request { return call(ctx, post, "http://bank.test/charges", "") },
		func(ctx context.Context) *http.Request { return call(ctx, post, charges, "other.test") },
		func(ctx context.Context) *http.Request { return call(ctx, post, "http://shop.test/a%2Fb", "") },
		func(ctx context.Context) *http.Request { return call(ctx, post, "http://shop.test/a/b", "") },
	}
	order := orders(t, func(ctx context.Context) {
		for _, newCall := range calls {
			send(transport, newCall(ctx))
		}
	})
	order("key-1")
	order("key-1")
	order("key-2")

	attempts := shop.attempts()
	if len(attempts) != 3*len(calls) {
		t.Fatalf("%d calls, want %d", len(attempts), 3*len(calls))
	}
	seen := map[string]bool{}
	for i := range calls {
		first, again, other := attempts[i].key, attempts[i+len(calls)].key, attempts[i+2*len(calls)].key
		if !policy.UUIDKey.Allows(first) || first != again { // a route may demand a UUID
			t.Errorf("call %d has the key %q, and %q when it is made again", i+1, first, again)
		}
		seen[first], seen[other] = true, true
	}
	testkit.Equal(t, len(seen), 2*len(calls), "keys of different calls")
}

// The query, the case of the host name and an empty path do not make another call.
func TestEqualCalls(t *testing.T) {
	t.Parallel()
	shop := serverThat(status(http.StatusCreated))
	transport := transportTo(t, shop)
	order := orders(t, func(ctx context.Context) {
		for _, url := range []string{"http://shop.test", "http://shop.test/", "http://SHOP.test/?signature=1", "https://shop.test/#a"} {
			send(transport, call(ctx, http.MethodPost, url, ""))
		}
	})
	order("key-1")
	shop.expectAttempts(t, 4)
}

func call(ctx context.Context, method, url, host string) *http.Request {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("{}"))
	if err != nil {
		panic(err)
	}
	if host != "" {
		request.Host = host
	}
	return request
}
