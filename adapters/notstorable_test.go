package adapters_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// narrowStore refuses each response for good, and takes the outcome without it.
type narrowStore struct{ storage.Store }

func (s narrowStore) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	if r.State != storage.Unreplayable {
		return storage.ErrNotStorable
	}
	return s.Store.Complete(ctx, l, r)
}

// Case 95: the client gets the response that the store refuses, and a retry gets
// not_replayable.
func TestResponseThatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{store: narrowStore{memstore.New()}})
		s.gets(s.do(post("/payments", "k", amount)), http.StatusCreated, `{"id":17}`)
		s.refuses(post("/payments", "k", amount), http.StatusConflict, problem.NotReplayable)
		s.ran(1)
	})
}
