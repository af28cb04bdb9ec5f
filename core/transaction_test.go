package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// bank is a store with transactions over one balance, enough to test the engine's
// calls. The tests of pgstore cover real transactions.
type bank struct {
	*faultyStore
	mu            sync.Mutex
	balance       int
	begun         *bankTransaction // the last one
	rollback      func() error
	begin, commit func(apply func() error) error
}

func newBank() *bank { return &bank{faultyStore: newFaultyStore()} }

func (b *bank) BeginTransaction(ctx context.Context, _ storage.Lease) (context.Context, storage.Transaction, error) {
	tx := &bankTransaction{bank: b}
	err := b.through(ctx, &b.acquires, &b.begin, func(storage.Store) error { return ctx.Err() })
	if err == nil {
		b.begun = tx
	}
	return storage.WithTransaction(ctx, tx), tx, err
}

func bankOf(ctx context.Context) *bankTransaction {
	tx, _ := storage.TransactionFrom(ctx).(*bankTransaction)
	return tx
}

type bankTransaction struct {
	bank  *bank
	delta int
	ended bool
}

func (tx *bankTransaction) Commit(ctx context.Context, l storage.Lease, res storage.Result) error {
	return tx.bank.through(ctx, &tx.bank.completes, &tx.bank.commit, func(storage.Store) error {
		tx.ended = true
		if err := tx.bank.Complete(ctx, l, res); err != nil {
			return err
		}
		tx.bank.mu.Lock()
		defer tx.bank.mu.Unlock()
		tx.bank.balance += tx.delta
		return nil
	})
}

func (tx *bankTransaction) Rollback(context.Context) error {
	tx.ended = true
	if tx.bank.rollback == nil {
		return nil
	}
	return tx.bank.rollback()
}

// deposit writes in the request's transaction.
func deposit(w http.ResponseWriter, r *http.Request) {
	bankOf(r.Context()).delta += 100
	created(w, r)
}

func (b *bank) wantBalance(t *testing.T, want int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	testkit.Equal(t, b.balance, want, "the balance")
}

func newBankService(t *testing.T, b *bank, handle http.HandlerFunc) *service {
	t.Helper()
	return newService(t, b, handle, policy.Transactional(true))
}

// A call inside of a transactional handler is a run of its own. Its result stays when the handler's transaction rolls back, and so
// must its effect.
func TestCallInsideATransaction(t *testing.T) {
	t.Parallel()
	var s *service
	s = newBankService(t, newBank(), func(w http.ResponseWriter, r *http.Request) {
		_, _, err := core.Do(r.Context(), s.Engine, chargeCall("k", nil), func(ctx context.Context) (int, error) {
			if bankOf(ctx) != nil {
				t.Error("the call writes in the handler's transaction")
			}
			return 1, nil
		})
		testkit.Must(t, err)
		created(w, r)
	})
	wantFirst(t, s.post(t.Context(), "k", payment))
}

func TestTransactionIsRolledBackWhenTheKeyIsReleased(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]http.HandlerFunc{
		"503":   responding(http.StatusServiceUnavailable),
		"panic": func(http.ResponseWriter, *http.Request) { panic("after the write") },
	}, func(t *testing.T, end http.HandlerFunc) {
		b := newBank()
		b.rollback = func() error { panic(errStoreDown) } // the connection is broken
		var last *bankTransaction
		s := newBankService(t, b, func(w http.ResponseWriter, r *http.Request) {
			last = bankOf(r.Context())
			last.delta += 100
			end(w, r)
		})
		for range 2 {
			recovered(func() { s.post(t.Context(), "k", payment) })
			if !last.ended {
				t.Error("the transaction is still open")
			}
		}
		b.wantBalance(t, 0)
		s.wantRuns(t, 2)
		s.wantEvent(t, event.StoreError, 2)
		if s.events.last(event.StoreError).Err == nil {
			t.Error("the event has no error")
		}
	})
}

// Case 39: a commit that failed, or may have, never looks like a success. The key is released, or
// the retry gets the response that was committed.
func TestCommitThatFailed(t *testing.T) {
	t.Parallel()
	type row struct {
		fault func(func() error) error
		runs  int64
	}
	testkit.EachInBubble(t, map[string]row{
		"not applied":       {failUnapplied, 2},
		"its reply is lost": {failApplied, 1},
		"it panics":         {func(apply func() error) error { _ = apply(); panic("driver bug") }, 1},
	}, func(t *testing.T, row row) {
		b := newBank()
		b.set(&b.commit)(row.fault)
		s := newBankService(t, b, deposit)
		w := s.post(t.Context(), "k", payment)
		wantCode(t, w, http.StatusServiceUnavailable, problem.NotConfirmed)
		if w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		testkit.Equal(t, s.events.last(event.NotConfirmed).Code, problem.NotConfirmed, "the code of the event")
		advance(time.Second)
		b.set(&b.commit)(nil)
		if w := s.post(t.Context(), "k", payment); row.runs == 1 {
			wantReplay(t, w)
		} else {
			wantFirst(t, w)
		}
		b.wantBalance(t, 100)
		s.wantRuns(t, row.runs)
		shutdown(t, s)
	})
}

// Case 96: a handler that has ended its transaction may have committed its writes without
// the response. Its key is left abandoned, and OnAbandoned decides.
func TestHandlerThatEndedItsTransaction(t *testing.T) {
	t.Parallel()
	for name, abandoned := range map[string]policy.Option{"re-execute": policy.OnAbandoned(policy.Reexecute), "refuse": policy.OnAbandoned(policy.Refuse)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBank()
				b.set(&b.commit)(failing(fmt.Errorf("COMMIT: %w", storage.ErrTransactionEnded)))
				s := newService(t, b, deposit, policy.Transactional(true), abandoned)
				wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.NotConfirmed)
				advance(time.Second)
				s.wantEvent(t, event.Uncertain, 1)
				s.wantEvent(t, event.DeleteKey, 0)
				b.set(&b.commit)(nil)
				if name == "refuse" {
					wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
					s.wantRuns(t, 1)
					return
				}
				wantFirst(t, s.post(t.Context(), "k", payment))
				s.wantEvent(t, event.LeaseExpired, 1)
				s.wantRuns(t, 2)
			})
		})
	}
}

// Without a transaction no handler runs, and the key is released for the next try.
func TestTransactionThatCannotBegin(t *testing.T) {
	t.Parallel()
	type row struct {
		begin func(func() error) error
		late  bool
	}
	testkit.EachInBubble(t, map[string]row{
		"it fails": {begin: failUnapplied},
		"it hangs": {late: true, begin: func(apply func() error) error {
			for apply() == nil {
				advance(time.Millisecond)
			}
			return apply()
		}},
		"it comes too late": {late: true, begin: func(func() error) error {
			advance(time.Minute)
			return nil
		}},
	}, func(t *testing.T, row row) {
		b := newBank()
		b.set(&b.begin)(row.begin)
		s := newBankService(t, b, deposit)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
		s.wantRuns(t, 0)
		err := s.events.last(event.Unavailable).Err // that of the store, whose context was cancelled
		if errors.Is(err, context.DeadlineExceeded) != row.late || errors.Is(err, context.Canceled) != row.late {
			t.Errorf("the request is unavailable for %v", err)
		}
		if b.begun != nil && !b.begun.ended {
			t.Error("the transaction that came too late is open")
		}
		b.set(&b.begin)(nil)
		wantFirst(t, s.post(t.Context(), "k", payment))
		shutdown(t, s)
	})
}

// A streaming response is committed before its first byte.
func TestTransactionThatStreams(t *testing.T) {
	t.Parallel()
	b := newBank()
	s := newBankService(t, b, func(w http.ResponseWriter, r *http.Request) {
		deposit(w, r)
		_ = http.NewResponseController(w).Flush()
		b.wantBalance(t, 100)
	})
	s.post(t.Context(), "k", payment)
	wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
	b.wantBalance(t, 100)
}

// Case 50: the database refuses the commit. The failure is certain, so the key is
// released at once, and the response is 500 rolled_back.
func TestRefusedCommitReleasesTheKey(t *testing.T) {
	t.Parallel()
	b := newBank()
	s := newBankService(t, b, deposit)
	b.set(&b.commit)(failing(fmt.Errorf("deferred constraint: %w", storage.ErrRolledBack)))
	for range 2 {
		w := s.post(t.Context(), "k", payment)
		wantCode(t, w, http.StatusInternalServerError, problem.RolledBack)
		if strings.Contains(w.Body.String(), "deferred constraint") {
			t.Error("the response contains the database's error text")
		}
	}
	b.set(&b.commit)(nil)
	wantFirst(t, s.post(t.Context(), "k", payment))
	b.wantBalance(t, 100)
	s.wantRuns(t, 3)
	s.wantEvent(t, event.NotConfirmed, 0)
	s.wantEvent(t, event.DeleteKey, 2)
}

// MarkExecuted is about the handler, and does not say what a step of unknown outcome has done:
// without a commit OnAbandoned decides.
func TestRefusedCommitAfterAnUncertainStep(t *testing.T) {
	t.Parallel()
	b := newBank()
	b.set(&b.commit)(failing(storage.ErrRolledBack))
	s := newService(t, b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = core.Step(r.Context(), "charge", returning(nil, failure.Uncertain(errBroken)))
		_, _ = core.Step(r.Context(), "mail", returning(1, nil))
		failure.MarkExecuted(r.Context())
		deposit(w, r)
	}, policy.Transactional(true), policy.OnAbandoned(policy.Refuse))
	wantCode(t, s.post(t.Context(), "k", payment), http.StatusInternalServerError, problem.RolledBack)
	wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
	s.wantRuns(t, 1)
}

// Case 50: the same holds for a function that Do runs.
func TestRefusedCommitOfACall(t *testing.T) {
	t.Parallel()
	b := newBank()
	engine := engineOf(t, b)
	b.commit = failing(storage.ErrRolledBack)
	call := core.Call{Scope: "s", Name: "deposit", Key: "k", Route: engine.MustRoute(policy.Transactional(true))}
	for range 2 {
		_, _, err := core.Do(t.Context(), engine, call, func(context.Context) (int, error) { return 1, nil })
		if !errors.Is(err, storage.ErrRolledBack) {
			t.Errorf("Do returned %v", err)
		}
	}
}
