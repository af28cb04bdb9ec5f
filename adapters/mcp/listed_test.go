package idemmcp_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
)

// listing changes how a server or a client lists tools.
func listing(list func(context.Context, *mcp.ListToolsResult) error) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, request)
			if listed, is := result.(*mcp.ListToolsResult); is {
				err = list(ctx, listed)
			}
			return result, err
		}
	}
}

// A tool that the server adds later gets a key like those that it had before.
func TestClientFindsAddedTools(t *testing.T) {
	t.Parallel()
	made := newShop(t, setup{})
	made.server.RemoveTools("charge")
	o := quick(new(retries))
	o.KeyIn = idemmcp.InArguments("idempotency_key")
	session := inMemory("2026-07-28")(t, made.server, sending(t, o))
	if got := call(t, session, args{"amount": 5}); got.err == nil {
		t.Fatalf("got %s of a tool that the server does not have", asJSON(got.result))
	}
	mcp.AddTool(made.server, &mcp.Tool{Name: "charge"}, handler(paid))
	call(t, session, args{"amount": 5}).wantPaid(t, 5, false)
}

// withNull is of a broken server, which lists a null among its tools.
var withNull = listing(func(_ context.Context, listed *mcp.ListToolsResult) error {
	listed.Tools = append([]*mcp.Tool{nil}, listed.Tools...)
	return nil
})

func TestClientIgnoresNullTools(t *testing.T) {
	t.Parallel()
	made := newShop(t, setup{})
	session := inMemory("2026-07-28")(t, made.server, sending(t, quick(new(retries)), withNull))
	call(t, session, args{"amount": 5}).wantPaid(t, 5, false)
}

// Middleware inside of the guard lists the tools of other servers.
func TestServerIgnoresNullTools(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "gateway", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "charge"}, handler(paid))
	server.AddReceivingMiddleware(newShop(t, setup{}).guard.Receive, withNull)
	session := inMemory("2026-07-28")(t, server, sending(t, quick(new(retries))))
	call(t, session, args{"amount": 5}).wantPaid(t, 5, false)
}

// MaxTime bounds a call with the list of tools before it.
func TestMaxTimeBoundsTheList(t *testing.T) {
	t.Parallel()
	hangs := listing(func(ctx context.Context, _ *mcp.ListToolsResult) error {
		<-ctx.Done()
		return ctx.Err()
	})
	made := newShop(t, setup{})
	session := inMemory("2026-07-28")(t, made.server, sending(t, idemmcp.ClientOptions{MaxTime: 50 * time.Millisecond}, hangs))
	began := time.Now()
	if got := call(t, session, args{"amount": 5}); !errors.Is(got.err, context.DeadlineExceeded) || time.Since(began) > 20*time.Second {
		t.Errorf("got %s and the error %v after %v", asJSON(got.result), got.err, time.Since(began))
	}
}
