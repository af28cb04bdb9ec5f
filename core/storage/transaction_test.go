package storage_test

import (
	"context"
	"testing"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// A hidden transaction is no transaction, until an inner one begins.
func TestWithoutTransaction(t *testing.T) {
	t.Parallel()
	outer := storage.WithTransaction(t.Context(), "outer")
	hidden := storage.WithoutTransaction(outer)
	inner := storage.WithTransaction(hidden, "inner")
	for ctx, want := range map[context.Context]any{t.Context(): nil, outer: "outer", hidden: nil, inner: "inner"} {
		testkit.Equal(t, storage.TransactionFrom(ctx), want, "storage.TransactionFrom(ctx)")
	}
}

// Case 82: a transaction is taken by TransactionFrom alone, through each derived context.
func TestTransactionTaken(t *testing.T) {
	t.Parallel()
	outer := storage.WithTransaction(t.Context(), "outer")
	derived, end := context.WithCancel(outer)
	defer end()
	inner := storage.WithTransaction(derived, "inner")
	_ = storage.TransactionFrom(storage.WithoutTransaction(outer))
	if storage.TransactionTaken(outer) || storage.TransactionTaken(inner) {
		t.Error("a transaction is taken")
	}
	_ = storage.TransactionFrom(inner)
	if storage.TransactionTaken(outer) || !storage.TransactionTaken(inner) {
		t.Error("not the inner transaction is taken")
	}
	_ = storage.TransactionFrom(derived)
	if !storage.TransactionTaken(outer) {
		t.Error("the outer transaction is not taken")
	}
	if !storage.TransactionTaken(t.Context()) {
		t.Error("a transaction that may be taken unseen is not taken")
	}
}
