package main

import (
	"context"
	"net/http"
	"sync"

	"github.com/oncekey/oncekey/core"
)

const (
	keeperName = "floor: a map of as many bytes"
	// keptBytes is what a memstore takes for a record: see the part about memory.
	keptBytes = 524
)

// keeper is the floor of a service with records: it keeps as many bytes for each key as a
// memstore does. It hashes nothing, claims nothing and replays nothing.
type keeper struct {
	mu   sync.Mutex
	kept map[string][]byte
}

func newKeeper(context.Context) (http.Handler, error) {
	return &keeper{kept: make(map[string][]byte)}, nil
}

// ServeHTTP implements http.Handler.
func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	record := make([]byte, keptBytes)
	copy(record, response)
	k.mu.Lock()
	k.kept[r.Header.Get(core.KeyHeader)] = record
	k.mu.Unlock()
	pay(w, r)
}
