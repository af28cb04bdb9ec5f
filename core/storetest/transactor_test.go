package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// txBug is a way to get transactions wrong.
type txBug uint8

const (
	noTxBug txBug = iota
	writesAtOnce
	losesRows
	losesResponse
	rollbackKeepsRows
	rollbackReleases
	rollbackNeedsTime
	rollbackUndoesCommit
	commitsTwice
	commitsLate
	commitFailsUnnamed
	commitsOverAnother
	commitsOverAResponse
	commitsOverItself
	commitsOnlyInTime
	extendWaits
	commitForgetsRemember
	commitForgetsOrigin
	commitForgetsClaim
	beginsLate
)

// txModel is the model with transactions: a table of rows, under one lock.
type txModel struct {
	storage.Store
	bug    txBug
	mutex  sync.Mutex
	rows   map[string]bool
	opened int
}

type txModelKey struct{}

type txModelTransaction struct {
	model *txModel
	lease storage.Lease
	rows  []string
	ended bool
}

func newTxModel(b txBug) (storage.Transactor, Table) {
	m := &txModel{Store: newModel(none), bug: b, rows: map[string]bool{}}
	write := func(handler context.Context, id string) error {
		tx := handler.Value(txModelKey{}).(*txModelTransaction)
		tx.rows = append(tx.rows, id)
		if b == writesAtOnce {
			m.keep(tx)
		}
		return nil
	}
	has := func(_ context.Context, id string) (bool, error) {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		return m.rows[id], nil
	}
	return m, Table{Write: write, Has: has}
}

func (m *txModel) keep(tx *txModelTransaction) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, id := range tx.rows {
		m.rows[id] = true
	}
}

func (m *txModel) BeginTransaction(ctx context.Context, l storage.Lease) (context.Context, storage.Transaction, error) {
	if ctx.Err() != nil && m.bug != beginsLate {
		return nil, nil, ctx.Err()
	}
	m.opened++
	tx := &txModelTransaction{model: m, lease: l}
	return context.WithValue(ctx, txModelKey{}, tx), tx, nil
}

func (m *txModel) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	if m.bug == extendWaits && m.opened > 0 {
		return errors.New("the record is locked")
	}
	return m.Store.Extend(ctx, l, ttl)
}

func (tx *txModelTransaction) Commit(ctx context.Context, l storage.Lease, res storage.Result) error {
	m := tx.model
	switch {
	case tx.ended && m.bug == commitsTwice:
		return nil
	case tx.ended:
		return errors.New("the transaction has ended")
	case ctx.Err() != nil && m.bug == commitFailsUnnamed:
		return ctx.Err()
	case ctx.Err() != nil && m.bug != commitsLate:
		return fmt.Errorf("%w: %w", storage.ErrRolledBack, ctx.Err())
	}
	tx.ended = true
	if err := tx.complete(context.WithoutCancel(ctx), l, res); err != nil {
		return err
	}
	if m.bug != losesRows {
		m.keep(tx)
	}
	return nil
}

// complete stores the result, unless another attempt or this lease has one already.
func (tx *txModelTransaction) complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	m := tx.model
	inspect, _ := m.Store.(storage.Inspector)
	before, err := inspect.Lookup(ctx, l.Key)
	switch {
	case err != nil:
		return err
	case m.bug == losesResponse:
		return nil
	case before.Attempt != l.Attempt && before.State == storage.InProgress && m.bug == commitsOverAnother,
		before.Attempt != l.Attempt && before.State != storage.InProgress && m.bug == commitsOverAResponse,
		before.Attempt == l.Attempt && before.State != storage.InProgress && m.bug == commitsOverItself:
		return nil
	case before.State != storage.InProgress, before.Abandoned() && m.bug == commitsOnlyInTime:
		return storage.ErrLeaseLost
	}
	switch m.bug {
	case commitForgetsRemember:
		res.Remember = 0
	case commitForgetsOrigin:
		l.Origin = storage.Origin{}
	case commitForgetsClaim: // the time of the claim too
		if _, err := inspect.Forget(ctx, l.Key, storage.RerunIsSafe); err != nil {
			return err
		}
		l.Age = 0
	default:
	}
	return m.Complete(ctx, l, res)
}

func (tx *txModelTransaction) Rollback(ctx context.Context) error {
	m := tx.model
	switch {
	case tx.ended && m.bug == rollbackUndoesCommit:
		m.mutex.Lock()
		defer m.mutex.Unlock()
		clear(m.rows)
		return nil
	case tx.ended:
		return nil
	case ctx.Err() != nil && m.bug == rollbackNeedsTime:
		return ctx.Err()
	}
	tx.ended = true
	if m.bug == rollbackKeepsRows {
		m.keep(tx)
	}
	if m.bug == rollbackReleases {
		return m.Release(context.WithoutCancel(ctx), tx.lease)
	}
	return nil
}

// brokenTransactors is each bug, and the case that must find it.
var brokenTransactors = map[txBug]string{
	writesAtOnce: "commit", losesRows: "commit", losesResponse: "commit", extendWaits: "the lease is renewed in a transaction",
	rollbackKeepsRows: "rollback", rollbackReleases: "rollback", rollbackNeedsTime: "rollback after the context ended",
	rollbackUndoesCommit: "rollback after commit", commitsTwice: "rollback after commit",
	commitsLate: "commit without time", commitFailsUnnamed: "commit without time",
	commitsOverAnother: "commit after a take-over", commitsOverAResponse: "commit after another attempt's response",
	commitsOverItself: "commit after a Complete of its own lease", commitsOnlyInTime: "commit of an expired lease",
	beginsLate:            "begin without time",
	commitForgetsRemember: "commit of a result that is remembered", commitForgetsOrigin: "commit of a result that is remembered",
	commitForgetsClaim: "commit of a result that is remembered",
}

func TestTransactorModelPasses(t *testing.T) {
	t.Parallel()
	RunTransactor(t, TransactorConfig{New: func(testing.TB) (storage.Transactor, Table) { return newTxModel(noTxBug) }})
}

func TestTransactorSuiteFindsEveryBug(t *testing.T) {
	t.Parallel()
	var found []string
	for bug := writesAtOnce; bug <= beginsLate; bug++ {
		name := brokenTransactors[bug]
		found = append(found, name)
		t.Run(fmt.Sprintf("%s/%d", name, bug), func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(transactorCases, func(c transactorCase) bool { return c.name == name })
			if i < 0 {
				t.Fatalf("bug %d has no case %q", bug, name)
			}
			synctest.Test(t, func(t *testing.T) {
				observed := &observer{TB: t}
				done := make(chan struct{})
				go func() {
					defer close(done) // FailNow ends the goroutine
					transactorCases[i].run(observed, TransactorConfig{New: func(testing.TB) (storage.Transactor, Table) { return newTxModel(bug) }})
				}()
				<-done
				if !observed.failed.Load() || !observed.explained.Load() {
					t.Errorf("the case %q does not find it, or does not print its rule", name)
				}
			})
		})
	}
	for _, c := range transactorCases {
		if !slices.Contains(found, c.name) {
			t.Errorf("case %q: no bug makes it fail", c.name)
		}
	}
}
