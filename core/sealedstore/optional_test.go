package sealedstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// database is a store in which handlers write too.
type database struct {
	*memstore.Store
	ended []string
	steps string // that it was given
}

type handlers struct{}

func (d *database) BeginTransaction(ctx context.Context, l storage.Lease) (context.Context, storage.Transaction, error) {
	d.steps += l.Steps
	if d.Store == nil {
		return nil, nil, errOpaque
	}
	return context.WithValue(ctx, handlers{}, true), &open{d}, nil
}

type open struct{ *database }

func (o *open) Commit(ctx context.Context, l storage.Lease, res storage.Result) error {
	o.ended, o.steps = append(o.ended, "commit"), o.steps+l.Steps
	return o.Complete(ctx, l, res)
}

func (o *open) Rollback(context.Context) error {
	o.ended = append(o.ended, "rollback")
	return errors.New("the connection is gone")
}

// begin claims a key and begins its transaction.
func begin(t *testing.T, store *sealedstore.Store, key string) (storage.Lease, storage.Transaction) {
	t.Helper()
	lease := win(t, store, claim(key))
	ctx, tx, err := store.BeginTransaction(t.Context(), lease)
	must(t, err)
	if ctx.Value(handlers{}) == nil {
		t.Error("the handler does not find its transaction")
	}
	return lease, tx
}

func TestTransactionIsSealed(t *testing.T) {
	t.Parallel()
	next := &database{Store: memstore.New()}
	store := sealedstore.New(next, newGCM(1))
	lease, tx := begin(t, store, "key")
	must(t, tx.Commit(t.Context(), lease, result(storage.Completed)))
	stale := lease
	stale.Token = storage.NewToken()
	fails(t, "a stale Commit", tx.Commit(t.Context(), stale, result(storage.Completed)), storage.ErrLeaseLost)
	replays(t, store, "key")
	if r := find(t, next, claim("key")); len(r.Header) != 1 || r.Header[0].Op != storage.Sealed {
		t.Errorf("the database has %+v, want it sealed", r)
	}
	_, tx = begin(t, store, "other")
	if err := tx.Rollback(t.Context()); err == nil || len(next.ended) != 3 || next.ended[2] != "rollback" {
		t.Errorf("Rollback returned %v after %v, want the database's own", err, next.ended)
	}
	next.Store = nil
	if _, _, err := store.BeginTransaction(t.Context(), lease); !errors.Is(err, errOpaque) {
		t.Errorf("BeginTransaction returned %v, want the database's error", err)
	}
}

// A response that cannot be sealed was certainly not committed.
func TestTransactionWithoutTheAEAD(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func() error{"unreachable": outages["a dead network"], "refusing": opaque}, func(t *testing.T, fail func() error) {
		next, aead := &database{Store: memstore.New()}, newMoody()
		store := sealedstore.New(next, aead)
		lease, tx := begin(t, store, "key")
		aead.set(fail, nil)
		fails(t, "Commit", tx.Commit(t.Context(), lease, result(storage.Completed)), storage.ErrRolledBack)
		if len(next.ended) != 1 || next.ended[0] != "rollback" {
			t.Errorf("the database was told to %v, want to roll back", next.ended)
		}
	})
}

func TestTransactsAsTheNextStoreDoes(t *testing.T) {
	t.Parallel()
	plain := sealedstore.New(memstore.New(), newGCM(1))
	if plain.Transacts() || sealedstore.New(plain, newGCM(1)).Transacts() {
		t.Error("over a store without transactions it says that it has some")
	}
	if !sealedstore.New(&database{Store: memstore.New()}, newGCM(1)).Transacts() {
		t.Error("over a store with transactions it says that it has none")
	}
}

// What the next store cannot do is unsupported. Without a Check it counts as ready, as core.Engine.Ready says.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	store := sealedstore.New(bare{memstore.New()}, newGCM(1))
	finish(t, store, "key", result(storage.Completed))
	replays(t, store, "key")
	_, _, begin := store.BeginTransaction(t.Context(), storage.Lease{})
	_, lookup := store.Lookup(t.Context(), "key")
	_, list := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 1})
	_, forget := store.Forget(t.Context(), "key", storage.RerunIsSafe)
	settle := store.Settle(t.Context(), "key", 1, storage.Happened)
	for method, err := range map[string]error{
		"BeginTransaction": begin, "Lookup": lookup, "List": list, "Forget": forget, "Settle": settle,
	} {
		testkit.Fails(t, method, err, errors.ErrUnsupported)
	}
	must(t, store.Check(t.Context()))
}

// An operator sees and forgets records that the AEAD does not open.
func TestInspectWithoutTheKey(t *testing.T) {
	t.Parallel()
	next := memstore.New()
	finish(t, sealedstore.New(next, newGCM(1)), "key", result(storage.Completed))
	store := sealedstore.New(next, newGCM(2))
	if page, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 10}); err != nil || len(page.Entries) != 1 || page.Entries[0].Key != "key" {
		t.Errorf("List returned %v and %v, want the record", page, err)
	}
	if there, err := store.Forget(t.Context(), "key", storage.RerunIsSafe); err != nil || !there {
		t.Errorf("Forget returned %t and %v, want the record forgotten", there, err)
	}
	win(t, store, claim("key"))
}

// unready is a store whose Check fails.
type unready struct{ *memstore.Store }

func (unready) Check(context.Context) error { return errOpaque }

// A process is ready when its store is and its AEAD works.
func TestCheck(t *testing.T) {
	t.Parallel()
	aead := newMoody()
	store := sealedstore.New(memstore.New(), aead)
	must(t, store.Check(t.Context()))
	aead.set(opaque, nil)
	if err := store.Check(t.Context()); !errors.Is(err, storage.ErrStoreForbidden) || !errors.Is(err, errOpaque) {
		t.Errorf("Check returned %v, want ErrStoreForbidden with the AEAD's error", err)
	}
	aead.set(nil, outages["a dead network"])
	if err := store.Check(t.Context()); err == nil || errors.Is(err, storage.ErrStoreForbidden) {
		t.Errorf("Check returned %v, want the AEAD's error alone", err)
	}
	fails(t, "Check", sealedstore.New(unready{memstore.New()}, newGCM(1)).Check(t.Context()), errOpaque)
}

// Settling needs no key of the seal, and the record is readable under each seal.
func TestSettleWithoutTheKey(t *testing.T) {
	t.Parallel()
	next := memstore.New()
	store := sealedstore.New(next, newGCM(1))
	must(t, store.Extend(t.Context(), win(t, store, claim("key")), 0))
	must(t, sealedstore.New(next, newGCM(2)).Settle(t.Context(), "key", 1, storage.Happened))
	if r := testkit.Find(t, store, claim("key")); r.State != storage.Unreplayable || r.Status != storage.StatusByHand {
		t.Errorf("the record is %+v, want the operator's decision", r)
	}
}

// examinedFirst fails the test when no time is left for its examination.
type examinedFirst struct {
	*memstore.Store
	testing.TB
}

func (e examinedFirst) Examine(ctx context.Context) []storage.Finding {
	must(e, ctx.Err())
	return e.Store.Examine(ctx)
}

// A key service that hangs leaves time to examine the next store.
func TestExamineWithAHangingAEAD(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		aead := &hanging{AEAD: newGCM(1), letGo: make(chan struct{})}
		aead.hangs.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		findings := sealedstore.New(examinedFirst{memstore.New(), t}, aead).Examine(ctx)
		testkit.Equal(t, findings[len(findings)-1].Grade, storage.Mend, "the grade of the seal")
		close(aead.letGo)
	})
}

func TestExamine(t *testing.T) {
	t.Parallel()
	aead := newMoody()
	for _, test := range []struct {
		store *sealedstore.Store
		want  storage.Grade
		say   error
	}{
		{sealedstore.New(memstore.New(), aead), storage.Good, nil},
		{sealedstore.New(memstore.New(), aead, sealedstore.ReadPlain()), storage.Look, nil},
		{sealedstore.New(memstore.New(), aead, sealedstore.ReadPlain()), storage.Mend, errOpaque},
	} {
		if test.say != nil {
			aead.set(opaque, nil)
		}
		findings := test.store.Examine(t.Context())
		if last := findings[len(findings)-1]; last.Check != "seal" || last.Grade != test.want || findings[0].Check != "next store: records" {
			t.Errorf("the findings are %+v, want the next store's and the seal's, which is %s", findings, test.want)
		}
	}
}
