package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// askingStore counts the requests of which a memstore has asked for the claim.
type askingStore struct {
	*memstore.Store
	asked atomic.Int64
}

func (s *askingStore) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	return s.Store.Acquire(ctx, counted{request, &s.asked})
}

// counted counts the calls of Claim.
type counted struct {
	storage.Request
	asked *atomic.Int64
}

func (c counted) Claim() storage.Claim {
	c.asked.Add(1)
	return c.Request.Claim()
}

// A retry with equal bytes is replayed without a claim, and so without a canonical
// fingerprint. Of any other request the store has the claim, under every policy.
func TestEqualBytesNeedNoClaim(t *testing.T) {
	t.Parallel()
	post := func(body string) *http.Request { return newPost(t.Context(), "k", body) }
	form := func(body string) *http.Request {
		r := post(body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
	keyless := func(body string) *http.Request {
		r := post(body)
		r.Header.Del(core.KeyHeader)
		return r
	}
	versioned := func(headerAndBody string) *http.Request {
		version, body, _ := strings.Cut(headerAndBody, "|")
		r := post(body)
		r.Header.Set("X-Api-Version", version)
		return r
	}
	type row struct {
		option                policy.Option
		request               func(body string) *http.Request
		first, respelt, other string // respelt is first in other bytes, or empty
	}
	testkit.EachInBubble(t, map[string]row{
		"JSON":           {nil, post, `{"amount":1,"note":"a"}`, `{"note": "a", "amount": 1}`, `{"amount":2,"note":"a"}`},
		"invalid JSON":   {nil, post, `{"amount":1,`, "", `{"amount":1, `},
		"a form":         {nil, form, "amount=1&note=a", "note=a&amount=1", "amount=1&note=b"},
		"ExcludeFields":  {policy.ExcludeFields("nonce"), post, `{"amount":1,"nonce":1}`, `{"amount":1,"nonce":2}`, `{"amount":2,"nonce":1}`},
		"IncludeFields":  {policy.IncludeFields("amount"), post, `{"amount":1,"nonce":1}`, `{"amount":1,"nonce":2}`, `{"amount":2,"nonce":1}`},
		"ExactBytes":     {policy.ExactBytes(true), post, `{"amount":1,"note":"a"}`, "", `{"amount": 1,"note":"a"}`},
		"KeyField":       {policy.KeyField("id"), keyless, `{"id":"k","amount":1}`, `{"amount":1,"id":"k"}`, `{"id":"k","amount":2}`},
		"IncludeHeaders": {policy.IncludeHeaders("X-Api-Version"), versioned, "1|{}", "1| {}", "2|{}"},
	}, func(t *testing.T, row row) {
		store := &askingStore{Store: memstore.New()}
		var opts []policy.Option
		if row.option != nil {
			opts = append(opts, row.option)
		}
		s := newService(t, store, created, opts...)
		send := func(body string, claims int64) *httptest.ResponseRecorder {
			t.Helper()
			w := testkit.Serve(s.handler, row.request(body))
			wantCalls(t, &store.asked, claims)
			return w
		}
		wantFirst(t, send(row.first, 1))
		wantReplay(t, send(row.first, 1))
		wantCode(t, send(row.other, 2), http.StatusUnprocessableEntity, "key_reused")
		wantReplay(t, send(row.first, 2))
		if row.respelt != "" {
			wantReplay(t, send(row.respelt, 3))
		}
		s.wantRuns(t, 1)
	})
}

// The event of a replay without a claim names the record and the attempt.
func TestEventOfAReplayWithoutAClaim(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	s.post(t.Context(), "k", payment)
	wantReplay(t, s.post(t.Context(), "k", payment))
	replay, want := s.events.last(), s.StorageKey("alice", http.MethodPost, "/payments", "k")
	if replay.Result != event.Replay || replay.Record != want || replay.Attempt != 1 || replay.Status != http.StatusCreated {
		t.Errorf("the event is %+v, want the replay of attempt 1 of %s", replay, want)
	}
}

// foundStore returns one record for each request, without its claim and its fingerprint.
type foundStore struct {
	*memstore.Store
	found storage.Record
}

func (s *foundStore) Acquire(_ context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	found := s.found
	_, found.Digest = request.Peek()
	return storage.Lease{}, &found, nil
}

// A record of a request without a claim is decided about as any other. Its fingerprint is
// not needed.
func TestRecordWithoutAClaim(t *testing.T) {
	t.Parallel()
	for code, found := range map[string]storage.Record{
		"not_replayable":    {State: storage.Unreplayable, Status: http.StatusCreated},
		"key_expired":       {State: storage.Expired, Status: http.StatusCreated},
		"outcome_unknown":   {State: storage.Expired},
		"store_unavailable": {State: storage.Completed, Header: storage.Header{{Op: storage.Sealed, Name: "sealed"}}},
	} {
		store := &foundStore{memstore.New(), found}
		s := newService(t, store, created)
		status := http.StatusConflict
		if code == "store_unavailable" {
			status = http.StatusServiceUnavailable
		}
		wantCode(t, s.post(t.Context(), "k", payment), status, code)
		s.wantRuns(t, 0)
	}
}
