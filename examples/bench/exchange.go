package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/load"
)

const size = 300

var (
	payload  = padded(`{"order_id":"o-1042","amount":4200,"currency":"EUR","customer":{"id":"c-77","country":"DE"},"items":[{"sku":"a","n":1},{"sku":"b","n":2}],"note":"`, size)
	response = padded(`{"payment_id":"pay_e6b11b98","order_id":"o-1042","status":"captured","note":"`, size)
)

// padded closes a JSON document whose last value is an open string.
func padded(open string, size int) []byte {
	return []byte(open + strings.Repeat("n", size-len(open)-2) + `"}`)
}

// sequence numbers keys, so that no two keys in a run are equal.
var sequence atomic.Uint64

// putKey writes the key of a number: load.KeySize bytes.
func putKey(number uint64, into []byte) {
	const head = "00000000-0000-4000-"
	copy(into, head)
	rest := into[len(head):]
	for i := range rest {
		rest[i] = '0'
	}
	var digits [20]byte
	written := strconv.AppendUint(digits[:0], number, 10)
	copy(rest[len(rest)-len(written):], written)
}

func newKey() string {
	var key [load.KeySize]byte
	putKey(sequence.Add(1), key[:])
	return string(key[:])
}

func newKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = newKey()
	}
	return keys
}

// silent is an observer without effect, because the benchmark does not measure logging.
type silent struct{}

func (silent) Observe(context.Context, event.Event) {}

func newEngine(store storage.Store) (*core.Engine, error) {
	bearer := func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }
	return core.New(store, core.ScopeBy(bearer), core.WithObserver(silent{}))
}

// newMemory is a memstore whose bounds no benchmark reaches.
func newMemory() *memstore.Store {
	return memstore.New(memstore.MaxRecords(1<<30), memstore.MaxBytes(1<<40))
}

// pay is the bare handler.
func pay(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(response)
}

// exchange sends one request after another to a handler, and allocates no memory itself.
type exchange struct {
	handler http.Handler
	request *http.Request
	header  http.Header
	status  int
	body    bytes.Reader
	read    io.ReadCloser
}

func newExchange(ctx context.Context, handler http.Handler) (*exchange, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "/payments", http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{
		core.KeyHeader: {""}, "Content-Type": {"application/json"}, "Authorization": {"Bearer alice"},
	}
	request.ContentLength = int64(len(payload))
	e := &exchange{handler: handler, request: request, header: make(http.Header)}
	e.read = io.NopCloser(&e.body)
	return e, nil
}

var _ http.ResponseWriter = (*exchange)(nil)

// Header, WriteHeader and Write implement http.ResponseWriter.
func (e *exchange) Header() http.Header         { return e.header }
func (e *exchange) WriteHeader(status int)      { e.status = status }
func (e *exchange) Write(p []byte) (int, error) { return len(p), nil }

// send sends the payload under a key, and expects the handler's status.
func (e *exchange) send(key string) error {
	clear(e.header)
	e.status = http.StatusOK
	e.body.Reset(payload)
	e.request.Body = e.read
	e.request.Header[core.KeyHeader][0] = key
	e.handler.ServeHTTP(e, e.request)
	if e.status != http.StatusCreated {
		return fmt.Errorf("response with status %d, want %d", e.status, http.StatusCreated)
	}
	return nil
}

// replayed reports whether the last response was a replay.
func (e *exchange) replayed() bool { return e.header.Get("X-Idempotent-Replay") == "true" }
