package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestKeys(t *testing.T) {
	t.Parallel()
	var key [load.KeySize]byte
	putKey(1234, key[:])
	if got := string(key[:]); got != "00000000-0000-4000-00000000000001234" {
		t.Errorf("the key of 1234 is %q", got)
	}
	if keys := newKeys(2); keys[0] == keys[1] {
		t.Errorf("two keys are the same: %v", keys)
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	for _, size := range []int{200, 2 << 10, 64 << 10} {
		if document := orders(size); len(document) != size || !json.Valid(document) {
			t.Errorf("orders(%d) has %d bytes: %.300s", size, len(document), document)
		}
	}
	if len(payload) != size || len(answer) != size || !json.Valid(payload) || !json.Valid(answer) {
		t.Errorf("the payload has %d and the response %d bytes", len(payload), len(answer))
	}
	if got := string(reversed(2)); got != `{"k000002":0,"k000001":0}` {
		t.Errorf("reversed(2) = %s", got)
	}
}

// countingStore counts an engine's calls.
type countingStore struct {
	storage.Store
	calls atomic.Int64
}

func (s *countingStore) Acquire(ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
	s.calls.Add(1)
	return s.Store.Acquire(ctx, c)
}

func (s *countingStore) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	s.calls.Add(1)
	return s.Store.Complete(ctx, l, r)
}

func TestCountTrips(t *testing.T) {
	t.Parallel()
	store := &countingStore{Store: newMemory()}
	counts, err := countTrips(t.Context(), store, &store.calls)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]int{"first": 2, "replay": 1, "422": 1, "409": 1} {
		if counts[kind] != want {
			t.Errorf("%s has called the store %d times, want %d", kind, counts[kind], want)
		}
	}
}

// The shortest complete run: servers, arms, the file.
func TestRun(t *testing.T) { //nolint:paralleltest // a comparison has the process to itself
	file := filepath.Join(t.TempDir(), "result.md")
	if err := run(t.Context(), []string{"-rounds", "1", "-slice", "1ms", "-records", "1000", "-parts", "inprocess,redis", "-o", file}); err != nil {
		t.Fatal(err)
	}
	result, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"`go -C examples/bench run . -parts=inprocess,redis -records=1000 -rounds=1 -slice=1ms`", "Only some of the parts were run",
		`srcset="docs/charts/in-process-dark.svg"`, "\n- In process, a guard adds ", "## In process, in memory", "| gin: replay |", "| fiber v2: first |", "| allocations, replay |", "## Redis",
	} {
		if !strings.Contains(string(result), want) {
			t.Errorf("the result has no %q", want)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(file), "docs", "charts", "in-process-light.svg")); err != nil {
		t.Error(err)
	}
	if strings.Contains(string(result), file) {
		t.Error("the result contains the name of its own file")
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for _, arguments := range [][]string{{"-parts", "nonsense"}, {"-rounds", "0"}, {"-slice", "0"}, {"-records", "1"}, {"-nonsense"}} {
		if err := run(t.Context(), arguments); err == nil {
			t.Errorf("%v is accepted", arguments)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ended, []string{"-parts", "fingerprint"}); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt the program returns %v", err)
	}
}
