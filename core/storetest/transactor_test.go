package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// The bugs of transactions.
const (
	writesAtOnce          bug = "a row is written at once"
	losesRows             bug = "a commit loses the rows"
	losesResponse         bug = "a commit loses the response"
	rollbackKeepsRows     bug = "a rollback keeps the rows"
	rollbackReleases      bug = "a rollback releases the key"
	rollbackNeedsTime     bug = "a rollback needs time"
	rollbackUndoesCommit  bug = "a rollback undoes a commit"
	commitsTwice          bug = "a transaction commits twice"
	commitsLate           bug = "a commit ignores its context"
	commitFailsUnnamed    bug = "a commit without time does not name its rollback"
	commitsOverAnother    bug = "a commit overwrites another attempt"
	commitsOverAResponse  bug = "a commit overwrites another response"
	commitsOverItself     bug = "a commit overwrites its own response"
	commitsOnlyInTime     bug = "a commit insists on the lease"
	extendWaits           bug = "an extend waits for the transaction"
	commitForgetsRemember bug = "a committed response is not remembered"
	commitForgetsOrigin   bug = "a committed response has no origin"
	commitForgetsClaim    bug = "a committed response has no time of its claim"
	beginsLate            bug = "a transaction begins without time"
	commitNotAtomic       bug = "a commit is not atomic"
)

// txModel is the model with transactions: a table of rows, under one lock.
type txModel struct {
	storage.Store
	bug    bug
	mutex  sync.Mutex
	rows   map[string]bool
	opened atomic.Int32
}

type txModelKey struct{}

type txModelTransaction struct {
	model *txModel
	lease storage.Lease
	rows  []string
	ended bool
}

func newTxModel(b bug) (storage.Transactor, Table) {
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
	m.opened.Add(1)
	tx := &txModelTransaction{model: m, lease: l}
	return context.WithValue(ctx, txModelKey{}, tx), tx, nil
}

func (m *txModel) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	if m.bug == extendWaits && m.opened.Load() > 0 {
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
	case commitNotAtomic:
		<-time.After(time.Microsecond)
		_ = m.Complete(ctx, l, res)
		return nil
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

// transactorBugs are the bugs that each case must find.
var transactorBugs = map[string][]bug{
	"commit":                                   {writesAtOnce, losesRows, losesResponse},
	"the lease is renewed in a transaction":    {extendWaits},
	"rollback":                                 {rollbackKeepsRows, rollbackReleases},
	"rollback after the context ended":         {rollbackNeedsTime},
	"rollback after commit":                    {rollbackUndoesCommit, commitsTwice},
	"commit without time":                      {commitsLate, commitFailsUnnamed},
	"commit after a take-over":                 {commitsOverAnother},
	"commit after another attempt's response":  {commitsOverAResponse},
	"commit after a Complete of its own lease": {commitsOverItself},
	"commit of an expired lease":               {commitsOnlyInTime},
	"begin without time":                       {beginsLate},
	"concurrent commits":                       {commitNotAtomic},
	"commit of a result that is remembered":    {commitForgetsRemember, commitForgetsOrigin, commitForgetsClaim},
}

func TestTransactorModelPasses(t *testing.T) {
	t.Parallel()
	RunTransactor(t, TransactorConfig{New: func(testing.TB) (storage.Transactor, Table) { return newTxModel(none) }})
}
