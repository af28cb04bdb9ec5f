package core

import (
	"errors"
	"net/http"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

var errTransactionUnused = errors.New("oncekey: the policy is Transactional, and the handler has not taken the transaction, so its effects and this response are not " +
	"committed together: take it by pgstore.Tx or sqlstore.Tx, with the handler's context, or declare the route without Transactional")

// reportUnusedTransaction reports a run with effects outside of its transaction: its
// response is kept, and the handler never took the transaction. An error response counts
// only after failure.MarkExecuted, because most handlers refuse a request before they take
// the transaction. A run that releases its key is not reported.
func (r *Run) reportUnusedTransaction(outcome failure.Outcome, status int) {
	if !r.hold.InTransaction() || storage.TransactionTaken(r.handler) {
		return
	}
	if outcome, _ = r.marks.Read(outcome); status >= http.StatusBadRequest && !outcome.Executed {
		return
	}
	r.report(event.Event{Result: event.TransactionUnused, Status: status, Err: errTransactionUnused})
}
