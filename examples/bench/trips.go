package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/oncekey/oncekey/core/storage"
)

// requestKinds are the kinds of requests that countTrips counts.
var requestKinds = []string{"first", "replay", "422", "409"}

// countTrips sends a request of each kind through an engine over the store, and returns by
// how much each request raised trips. An earlier request loads the scripts. The conflict is
// with another process, because an engine knows its own runs without the store.
func countTrips(ctx context.Context, store storage.Store, trips *atomic.Int64) (map[string]int, error) {
	e, err := exchangeWith(ctx, store, pay)
	if err != nil {
		return nil, err
	}
	if err := e.send(newKey(), http.StatusCreated); err != nil {
		return nil, err
	}
	key, held := newKey(), newKey()
	end, err := holdKey(ctx, store, held)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int)
	for _, request := range []struct {
		kind, key, contentType string
		status                 int
	}{
		{"first", key, "application/json", http.StatusCreated},
		{"replay", key, "application/json", http.StatusCreated},
		{"422", key, "text/plain", http.StatusUnprocessableEntity}, // another media type
		{"409", held, "application/json", http.StatusConflict},
	} {
		e.request.Header.Set("Content-Type", request.contentType)
		trips.Store(0)
		if err := e.send(request.key, request.status); err != nil {
			return nil, errors.Join(err, end())
		}
		counts[request.kind] = int(trips.Load())
	}
	return counts, end()
}

func exchangeWith(ctx context.Context, store storage.Store, handler http.HandlerFunc) (*exchange, error) {
	engine, err := newEngine(store)
	if err != nil {
		return nil, err
	}
	return newExchange(ctx, engine.Handler(handler))
}

// holdKey runs a handler under the key in another engine, until end.
func holdKey(ctx context.Context, store storage.Store, key string) (end func() error, err error) {
	entered, release := make(chan struct{}), make(chan struct{})
	e, err := exchangeWith(ctx, store, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		pay(w, r)
	})
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- e.send(key, http.StatusCreated) }()
	select {
	case <-entered:
		return func() error { close(release); return <-ended }, nil
	case err := <-ended:
		return nil, err
	}
}
