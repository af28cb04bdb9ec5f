//go:build !race

package rpc

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Case 88: a waiting call holds beside its message the text of the message once.
func TestWaitingCallHoldsItsTextOnce(t *testing.T) { //nolint:paralleltest // others would allocate in between
	synctest.Test(t, func(t *testing.T) {
		const procedure, waiters, size = "/oncekey.shop.v1.Payments/Pay", 24, 1 << 20
		store, end := memstore.New(), make(chan struct{})
		message := &shop.PayRequest{Currency: strings.Repeat("v", size)}
		var all sync.WaitGroup
		send := func(n int) {
			guard := waitingGuard(t, store, procedure, policy.MaxRequestBytes(2*size))
			for range n {
				all.Go(func() {
					reply := guard.Serve(t.Context(), &Call{
						Method: guard.Method(procedure), Header: http.Header{"Idempotency-Key": {"k"}}, Message: message,
						Handle: func(context.Context) Result { <-end; return Result{Message: &shop.Payment{}} },
					})
					if reply.Status != nil {
						t.Errorf("got %v", reply.Status)
					}
				})
			}
			synctest.Wait()
		}
		send(1)
		before := inUse()
		send(waiters)
		if held := float64(inUse()-before) / waiters / float64(proto.Size(message)); held > 1.3 {
			t.Errorf("a waiter holds %.2f times its message, want it once", held)
		}
		close(end)
		all.Wait()
	})
}

// inUse returns the bytes that are in use after a collection.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // the second collection empties sync.Pools
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

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
