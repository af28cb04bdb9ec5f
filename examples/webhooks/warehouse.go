package main

import (
	"context"
	"slices"
	"sync"
)

// warehouse ships orders. It takes an idempotency key, as carriers and payment providers
// do: a second call with the key returns the first shipment.
type warehouse struct {
	mu    sync.Mutex
	calls int
	keys  []string
}

func (w *warehouse) ship(_ context.Context, key, _ string) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if before := slices.Index(w.keys, key); before >= 0 {
		return before + 1, nil
	}
	w.keys = append(w.keys, key)
	return len(w.keys), nil
}

func (w *warehouse) count() (calls, shipments int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls, len(w.keys)
}
