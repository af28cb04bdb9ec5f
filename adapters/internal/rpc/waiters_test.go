package rpc

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// waitingGuard returns the guard of one process, whose calls of the procedure wait.
func waitingGuard(t *testing.T, store storage.Store, procedure string, opts ...policy.Option) *Guard {
	t.Helper()
	engine, err := core.New(store, core.SharedScope)
	testkit.Must(t, err)
	table, err := policy.NewTable(policy.Row("POST "+procedure, append(opts, policy.Wait(time.Hour))...))
	testkit.Must(t, err)
	guard, err := NewGuard(engine, "", table)
	testkit.Must(t, err)
	return guard
}

// Case 88: above 128 waiting calls with one key, further ones are refused at once.
func TestWaitingCallsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const procedure, most, more = "/oncekey.shop.v1.Payments/Pay", 128, 7
		guard, end := waitingGuard(t, memstore.New(), procedure), make(chan struct{})
		var all sync.WaitGroup
		var paid, refused atomic.Int64
		for range 1 + most + more {
			all.Go(func() {
				reply := guard.Serve(t.Context(), &Call{
					Method: guard.Method(procedure), Header: http.Header{"Idempotency-Key": {"k"}}, Message: &shop.PayRequest{},
					Handle: func(context.Context) Result { <-end; return Result{Message: &shop.Payment{}} },
				})
				switch {
				case reply.Status == nil:
					paid.Add(1)
				case reply.Status.GetCode() == int32(code.Code_ABORTED):
					refused.Add(1)
				default:
					t.Errorf("got %v", reply.Status)
				}
			})
		}
		synctest.Wait()
		if refused.Load() != more || paid.Load() > 0 {
			t.Errorf("%d calls are refused and %d have a reply, want %d and none", refused.Load(), paid.Load(), more)
		}
		close(end)
		all.Wait()
		if paid.Load() != 1+most {
			t.Errorf("%d calls have a reply, want %d", paid.Load(), 1+most)
		}
	})
}
