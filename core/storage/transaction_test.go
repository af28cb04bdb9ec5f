package storage_test

import (
	"context"
	"testing"

	"github.com/oncekey/oncekey/core/storage"
)

// A hidden transaction is no transaction, until an inner one begins.
func TestWithoutTransaction(t *testing.T) {
	t.Parallel()
	outer := storage.WithTransaction(t.Context(), "outer")
	hidden := storage.WithoutTransaction(outer)
	inner := storage.WithTransaction(hidden, "inner")
	for ctx, want := range map[context.Context]any{t.Context(): nil, outer: "outer", hidden: nil, inner: "inner"} {
		if got := storage.TransactionFrom(ctx); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
