package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// nearStore is a faultyStore that is a storage.Finder.
type nearStore struct {
	*faultyStore
	find func(context.Context, [32]byte, storage.Digest) *storage.Record
}

func (s *nearStore) Find(ctx context.Context, key [32]byte, digest storage.Digest) *storage.Record {
	return s.find(ctx, key, digest)
}

func newNearStore() *nearStore {
	memory := memstore.New()
	return &nearStore{&faultyStore{Store: memory}, memory.Find}
}

// A retry with equal bytes is replayed without a claim, and so without a canonical
// fingerprint. Any other request is decided by Acquire, under every policy.
func TestEqualBytesNeedNoClaim(t *testing.T) {
	t.Parallel()
	form := func(body string) *http.Request {
		r := newPost(t.Context(), "k", body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
	post := func(body string) *http.Request { return newPost(t.Context(), "k", body) }
	keyless := func(body string) *http.Request {
		r := post(body)
		r.Header.Del(core.KeyHeader)
		return r
	}
	versioned := func(body, version string) *http.Request {
		r := post(body)
		r.Header.Set("X-Api-Version", version)
		return r
	}
	for name, test := range map[string]struct {
		policy         []policy.Option
		first, respelt func() *http.Request // the same request, the second one in other bytes
		other          func() *http.Request
	}{
		"JSON": {
			nil,
			func() *http.Request { return post(`{"amount":1,"note":"a"}`) },
			func() *http.Request { return post(`{"note": "a", "amount": 1}`) },
			func() *http.Request { return post(`{"amount":2,"note":"a"}`) },
		},
		"invalid JSON": {
			nil,
			func() *http.Request { return post(`{"amount":1,`) },
			nil,
			func() *http.Request { return post(`{"amount":1, `) },
		},
		"a form": {
			nil,
			func() *http.Request { return form("amount=1&note=a") },
			func() *http.Request { return form("note=a&amount=1") },
			func() *http.Request { return form("amount=1&note=b") },
		},
		"ExcludeFields": {
			[]policy.Option{policy.ExcludeFields("nonce")},
			func() *http.Request { return post(`{"amount":1,"nonce":1}`) },
			func() *http.Request { return post(`{"amount":1,"nonce":2}`) },
			func() *http.Request { return post(`{"amount":2,"nonce":1}`) },
		},
		"IncludeFields": {
			[]policy.Option{policy.IncludeFields("amount")},
			func() *http.Request { return post(`{"amount":1,"nonce":1}`) },
			func() *http.Request { return post(`{"amount":1,"nonce":2}`) },
			func() *http.Request { return post(`{"amount":2,"nonce":1}`) },
		},
		"KeyField": {
			[]policy.Option{policy.KeyField("id")},
			func() *http.Request { return keyless(`{"id":"k","amount":1}`) },
			func() *http.Request { return keyless(`{"amount":1,"id":"k"}`) },
			func() *http.Request { return keyless(`{"id":"k","amount":2}`) },
		},
		"IncludeHeaders": {
			[]policy.Option{policy.IncludeHeaders("X-Api-Version")},
			func() *http.Request { return versioned(payment, "1") },
			func() *http.Request { return versioned(" "+payment, "1") },
			func() *http.Request { return versioned(payment, "2") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newNearStore()
			s := newService(t, store, created, test.policy...)
			send := func(r *http.Request, claims int64) *httptest.ResponseRecorder {
				t.Helper()
				w := httptest.NewRecorder()
				s.handler.ServeHTTP(w, r)
				if got := store.acquires.Load(); got != claims {
					t.Errorf("%d claims so far, want %d", got, claims)
				}
				return w
			}
			wantFirst(t, send(test.first(), 1))
			wantReplay(t, send(test.first(), 1))
			wantCode(t, send(test.other(), 2), http.StatusUnprocessableEntity, "key_reused")
			wantReplay(t, send(test.first(), 2))
			if test.respelt != nil {
				wantReplay(t, send(test.respelt(), 3))
			}
			s.wantRuns(t, 1)
		})
	}
}

// The event of a replay without a claim names the record and the attempt.
func TestEventOfAFoundRecord(t *testing.T) {
	t.Parallel()
	s := newService(t, newNearStore(), created)
	s.post(t.Context(), "k", payment)
	wantReplay(t, s.post(t.Context(), "k", payment))
	seen := s.events.seen()
	replay, want := seen[len(seen)-1], s.StorageKey("alice", http.MethodPost, "/payments", "k")
	if replay.Result != event.Replay || replay.Record != want || replay.Attempt != 1 || replay.Status != http.StatusCreated {
		t.Errorf("the event is %+v, want the replay of attempt 1 of %s", replay, want)
	}
}

// A record that Find returns is decided about as one of Acquire.
func TestFoundRecordIsDecided(t *testing.T) {
	t.Parallel()
	for code, found := range map[string]storage.Record{
		"not_replayable":  {State: storage.Unreplayable, Status: http.StatusCreated},
		"key_expired":     {State: storage.Expired, Status: http.StatusCreated},
		"outcome_unknown": {State: storage.Expired},
	} {
		store := newNearStore()
		store.find = func(_ context.Context, _ [32]byte, digest storage.Digest) *storage.Record {
			found.Digest = digest
			return &found
		}
		s := newService(t, store, created)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, code)
		s.wantRuns(t, 0)
	}
}

// A Find that panics is a store that fails. The handler does not run.
func TestFindPanics(t *testing.T) {
	t.Parallel()
	store := newNearStore()
	store.find = func(context.Context, [32]byte, storage.Digest) *storage.Record { panic("no such map") }
	s := newService(t, store, created)
	wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, "store_unavailable")
	s.wantRuns(t, 0)
	s.wantEvent(t, event.StoreError, 1)
}

// A sealed body is never replayed, also if Find returns it.
func TestFoundRecordIsSealed(t *testing.T) {
	t.Parallel()
	store := newNearStore()
	near := store.find
	store.find = func(ctx context.Context, key [32]byte, digest storage.Digest) *storage.Record {
		r := near(ctx, key, digest)
		if r != nil {
			r.Header = storage.Header{{Op: storage.Sealed, Name: "sealed"}}
		}
		return r
	}
	s := newService(t, store, created)
	s.post(t.Context(), "k", payment)
	wantReplay(t, s.post(t.Context(), "k", payment)) // the record of Acquire, which is plain here
	if claims := store.acquires.Load(); claims != 2 {
		t.Errorf("%d claims, want 2: Acquire decides about a sealed record", claims)
	}
}
