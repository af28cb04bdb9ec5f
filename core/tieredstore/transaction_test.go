package tieredstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// transactional is a link to a database in which handlers write.
type transactional struct{ *link }

type transactionKey struct{}

type transaction struct{ *link }

func (l transactional) BeginTransaction(ctx context.Context, _ storage.Lease) (context.Context, storage.Transaction, error) {
	err := l.call(ctx, "Begin", func() error { return nil })
	if err != nil {
		return nil, nil, err
	}
	return context.WithValue(ctx, transactionKey{}, true), transaction(l), nil
}

func (t transaction) Commit(ctx context.Context, l storage.Lease, res storage.Result) error {
	return t.Complete(ctx, l, res)
}

func (t transaction) Rollback(ctx context.Context) error {
	return t.call(ctx, "Rollback", func() error { return nil })
}

func newTransactional() tiers {
	s := tiers{hot: newServer().link(), durable: newServer().link()}
	s.Store = tieredstore.New(s.hot, transactional{s.durable}, tieredstore.Logger(silent))
	return s
}

func TestTransaction(t *testing.T) {
	t.Parallel()
	s := newTransactional()
	lease := win(t, s, claim("key"))
	ctx, tx, err := s.BeginTransaction(t.Context(), lease)
	must(t, err)
	testkit.Equal(t, ctx.Value(transactionKey{}), true, "the handler does not find the transaction")
	s.wants(t, 1, 2)
	must(t, tx.Commit(ctx, lease, result("answer")))
	s.wants(t, 1, 1)
	replays(t, s, "key", "answer")
	s.wants(t, 1, 0)
}

func TestRollback(t *testing.T) {
	t.Parallel()
	s := newTransactional()
	lease := win(t, s, claim("key"))
	ctx, tx, err := s.BeginTransaction(t.Context(), lease)
	must(t, err)
	s.wants(t, 1, 2)
	must(t, tx.Rollback(ctx))
	s.wants(t, 0, 1)
	runs(t, s, "key")
}

// The result of the commit is unknown, or another caller has the key: the hot tier
// gets no result.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	for _, broken := range []fault{refuse, loseReply} {
		s := newTransactional()
		lease := win(t, s, claim("key"))
		ctx, tx, err := s.BeginTransaction(t.Context(), lease)
		must(t, err)
		s.hot.taken()
		s.durable.set(broken)
		fails(t, "Commit", tx.Commit(ctx, lease, result("answer")), errDown)
		s.durable.taken()
		s.wants(t, 0, 0)
	}
}

func TestTransactsAsItsDurableTierDoes(t *testing.T) {
	t.Parallel()
	if !newTransactional().Transacts() {
		t.Error("over a durable tier with transactions it says that it has none")
	}
	if store := tieredstore.New(transactional{newServer().link()}, newServer().link()); store.Transacts() {
		t.Error("over a hot tier with transactions it says that it has some")
	}
	if store := tieredstore.New(newServer().link(), newTiers()); store.Transacts() {
		t.Error("over two tiers without transactions it says that it has some")
	}
}

// A configuration that would fail each request is refused when the route is declared.
func TestTransactionalRouteNeedsADatabase(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{}) // it is never dialled
	t.Cleanup(func() { rdb.Close() })
	for name, store := range map[string]storage.Store{
		"memory": memstore.New(), "Redis": redisstore.New(rdb), "two tiers without one": newTiers().Store,
	} {
		engine, err := core.New(store, core.SharedScope)
		must(t, err)
		_, err = engine.Route(policy.Transactional(true))
		if fault, is := errors.AsType[*policy.FieldError](err); !is || fault.Field != "Transactional" {
			t.Errorf("over %s the declaration returned %v, want it refused", name, err)
		}
	}
}

func TestTransactionCannotBegin(t *testing.T) {
	t.Parallel()
	s := newTransactional()
	s.durable.set(refuse.in("Begin"))
	if _, _, err := s.BeginTransaction(t.Context(), storage.Lease{}); !errors.Is(err, errDown) {
		t.Errorf("BeginTransaction returned %v, want the database's error", err)
	}
	plain := newTiers()
	if _, _, err := plain.BeginTransaction(t.Context(), storage.Lease{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("BeginTransaction returned %v, want errors.ErrUnsupported", err)
	}
}
