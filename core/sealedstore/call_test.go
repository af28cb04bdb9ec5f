package sealedstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// outages are the ways in which an AEAD says "not now".
var outages = map[string]func() error{
	"its own word":    func() error { return fmt.Errorf("kms: %w", sealedstore.ErrUnavailable) },
	"a dead network":  func() error { return &url.Error{Op: "Post", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}} },
	"a DNS failure":   func() error { return &net.DNSError{Err: "no such host"} },
	"its own timeout": func() error { return context.DeadlineExceeded },
	"a cancelled one": func() error { return fmt.Errorf("kms: %w", context.Canceled) },
	"a panic":         func() error { panic("plain body") },
	"no return":       func() error { runtime.Goexit(); return nil },
}

// A key service that is unreachable is "not now", and not a corrupt record.
func TestUnavailableIsNotCorrupt(t *testing.T) {
	t.Parallel()
	testkit.Each(t, outages, func(t *testing.T, outage func() error) {
		aead := newMoody()
		store := sealedstore.New(memstore.New(), aead)
		finish(t, store, "key", result(storage.Completed))
		aead.set(nil, outage)
		refuses(t, store, "key", storage.ErrUnreadable, storage.ErrCorruptRecord)
		if _, _, err := store.Acquire(t.Context(), claim("key")); strings.Contains(err.Error(), "plain") {
			t.Errorf("the error %q shows the response", err)
		}
		aead.set(nil, opaque)
		refuses(t, store, "key", storage.ErrCorruptRecord, storage.ErrUnreadable)
		aead.set(nil, nil)
		replays(t, store, "key")
	})
}

// What cannot be sealed is not stored, and can be completed later.
func TestCompleteWithoutTheAEAD(t *testing.T) {
	t.Parallel()
	testkit.Each(t, outages, func(t *testing.T, outage func() error) {
		aead := newMoody()
		store := sealedstore.New(memstore.New(), aead)
		lease := win(t, store, claim("key"))
		aead.set(outage, nil)
		for _, permanent := range []error{storage.ErrLeaseLost, storage.ErrStoreForbidden, storage.ErrCorruptRecord} {
			if err := store.Complete(t.Context(), lease, result(storage.Completed)); err == nil || errors.Is(err, permanent) {
				t.Errorf("Complete returned %v, want an error after which it is repeated", err)
			}
		}
		testkit.Equal(t, find(t, store, claim("key")).State, storage.InProgress, "the record's state")
		aead.set(nil, nil)
		must(t, store.Complete(t.Context(), lease, result(storage.Completed)))
		replays(t, store, "key")
	})
}

// hanging is an AEAD that does not return until it is let go.
type hanging struct {
	sealedstore.AEAD
	running atomic.Int32
	hangs   atomic.Bool
	letGo   chan struct{}
}

func (h *hanging) wait() {
	if !h.hangs.Load() {
		return
	}
	h.running.Add(1)
	<-h.letGo
	h.running.Add(-1)
}

func (h *hanging) Encrypt(plaintext, data []byte) ([]byte, error) {
	h.wait()
	return h.AEAD.Encrypt(plaintext, data)
}

func (h *hanging) Decrypt(ciphertext, data []byte) ([]byte, error) {
	h.wait()
	return h.AEAD.Decrypt(ciphertext, data)
}

// No call outlives its context, and no more goroutines hang than MaxCalls says.
func TestHangingAEAD(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		aead := &hanging{AEAD: newGCM(1), letGo: make(chan struct{})}
		store := sealedstore.New(memstore.New(), aead, sealedstore.MaxCalls(2))
		finish(t, store, "key", result(storage.Completed))
		running := win(t, store, claim("running"))
		aead.hangs.Store(true)
		const limit = 500 * time.Millisecond
		testkit.Concurrently(5, func(n int) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			start := time.Now()
			var err error
			switch n {
			case 0:
				err = store.Complete(ctx, running, result(storage.Completed))
			case 1:
				_, err = store.Lookup(ctx, "key")
			default:
				_, _, err = store.Acquire(ctx, claim("key"))
			}
			testkit.Equal(t, time.Since(start), limit, "the time until caller %d returned", n)
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, sealedstore.ErrUnavailable) || errors.Is(err, storage.ErrCorruptRecord) {
				t.Errorf("caller %d got %v, want the end of its context and ErrUnavailable", n, err)
			}
		})
		testkit.Equal(t, aead.running.Load(), 2, "calls that run at a time")
		aead.hangs.Store(false)
		close(aead.letGo)
		synctest.Wait()
		replays(t, store, "key")
		must(t, store.Complete(t.Context(), running, result(storage.Completed)))
	})
}

// A call whose context has ended makes no call of the AEAD.
func TestEndedContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		aead := newMoody()
		store := sealedstore.New(memstore.New(), aead)
		lease := win(t, store, claim("key"))
		synctest.Wait()
		before := aead.calls.Load()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			fails(t, "Complete", store.Complete(ended, lease, result(storage.Completed)), context.Canceled)
		}
		synctest.Wait()
		testkit.Equal(t, aead.calls.Load(), before, "calls of the AEAD")
	})
}

// A process that cannot settle claims nothing, and finds out once.
func TestFirstAcquireTriesTheAEAD(t *testing.T) {
	t.Parallel()
	wrong := &fixed{AEAD: newGCM(1), opened: []byte("another text")}
	type test struct {
		aead sealedstore.AEAD
		want error
	}
	testkit.Each(t, map[string]test{
		"refuses to seal": {withMood(opaque, nil), storage.ErrStoreForbidden},
		"refuses to open": {withMood(nil, opaque), storage.ErrStoreForbidden},
		"opens wrong":     {wrong, storage.ErrStoreForbidden},
		"is unreachable":  {withMood(outages["a dead network"], nil), storage.ErrUnreadable},
		"is half there":   {withMood(nil, outages["a dead network"]), storage.ErrUnreadable},
	}, func(t *testing.T, test test) {
		next := memstore.New()
		store := sealedstore.New(next, test.aead)
		refused(t, store, claim("key"), test.want)
		testkit.Equal(t, next.Len(), 0, "the key is claimed")
	})
	aead := withMood(outages["a dead network"], nil)
	store := sealedstore.New(memstore.New(), aead)
	_, _, err := store.Acquire(t.Context(), claim("key"))
	if err == nil {
		t.Error("Acquire returned no error")
	}
	aead.set(nil, nil)
	win(t, store, claim("key"))
	tried := aead.calls.Load()
	win(t, store, claim("other"))
	testkit.Equal(t, aead.calls.Load(), tried, "calls of the AEAD")
}

func withMood(encrypt, decrypt func() error) *moody {
	aead := newMoody()
	aead.set(encrypt, decrypt)
	return aead
}
