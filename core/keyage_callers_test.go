package core_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Without its store a FailOpen route runs young keys, and no old ones.
func TestKeyAgeWithFailOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(&store.acquire)(failUnapplied)
		s := newService(t, store, created, aged(policy.OnStoreError(policy.FailOpen))...)
		wantFirst(t, s.post(t.Context(), keyOf(time.Now()), payment))
		wantCode(t, s.post(t.Context(), oldKey(), payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
		s.wantRuns(t, 1)
		s.wantEvent(t, event.Unprotected, 1)
	})
}

// An observing route reports the rule, and runs the handler.
func TestKeyAgeOfAnObservingRoute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newService(t, store, created, aged(policy.ObserveOnly(true))...)
		for _, key := range []string{oldKey(), "order-17"} {
			wantFirst(t, s.post(t.Context(), key, payment))
		}
		s.wantEvent(t, event.KeyExpired, 1)
		s.wantEvent(t, event.Refused, 1)
		wantNoRecord(t, store)
	})
}

// Calls follow the rule of requests. They have no header.
func TestKeyAgeOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newService(t, store, created)
		call := chargeCall(keyOf(time.Now()), nil)
		call.Route = s.MustRoute(aged()...)
		for n := range 2 {
			if _, info, err := s.charge(t.Context(), call); err != nil || info.Replayed != (n == 1) {
				t.Errorf("call %d: %+v, %v", n+1, info, err)
			}
		}
		advance(2 * time.Hour)
		for _, call.Key = range []string{call.Key, oldKey()} {
			if _, _, err := s.charge(t.Context(), call); !errors.Is(err, core.ErrKeyExpired) {
				t.Errorf("a late call: %v, want ErrKeyExpired", err)
			}
		}
		const want = `oncekey: key_invalid: the call of "charge": Call.Key must be a UUID of version 7 or a ULID`
		call.Key = "order-17"
		_, _, err := s.charge(t.Context(), call)
		if refused, is := errors.AsType[*core.RefusedError](err); !is || refused.Problem.Code != problem.KeyInvalid || err.Error() != want {
			t.Errorf("a key without a time: %v, want %s", err, want)
		}
		if seen := s.events.last(event.Refused); seen.ErrorText() != want {
			t.Errorf("the log has %s, want %s", seen.ErrorText(), want)
		}
		s.wantRuns(t, 1)
		wantNoRecord(t, store)
	})
}

// Begin follows the rule too.
func TestKeyAgeOfBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, memstore.New(), created)
		route := s.MustRoute(aged()...)
		for key, want := range map[string]string{oldKey(): problem.KeyExpired, "order-17": problem.KeyInvalid} {
			request := core.Request{Scope: "alice", Method: http.MethodPost, Path: "/payments", Key: key, Fingerprint: "f"}
			if got := s.Begin(t.Context(), route, request); got.Problem == nil || got.Problem.Code != want {
				t.Errorf("%s: %+v, want %s", key, got, want)
			}
		}
		s.wantEvent(t, event.KeyExpired, 1)
		s.wantEvent(t, event.Refused, 1)
	})
}

// Explain follows the rule, without a claim.
func TestKeyAgeExplained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, memstore.New(), created, aged()...)
		stored := keyOf(time.Now())
		wantFirst(t, s.post(t.Context(), stored, payment))
		advance(time.Hour)
		expired := core.Outlook{Result: event.KeyExpired, Code: problem.KeyExpired, Status: 409}
		invalid := core.Outlook{Result: event.Refused, Code: problem.KeyInvalid, Status: 400}
		sent := func(age time.Duration) string { return time.Now().Add(-age).UTC().Format(http.TimeFormat) }
		for name, row := range map[string]struct {
			key, sent string
			call      bool
			want      core.Outlook
		}{
			"a record":            {key: stored, want: core.Outlook{Result: event.Replay, Status: 201}},
			"an old key":          {key: keyOf(time.Now().Add(-2 * time.Hour)), want: expired},
			"a young key":         {key: keyOf(time.Now()), want: core.Outlook{Result: event.Execute}},
			"a key without time":  {key: "order-17", want: invalid},
			"an old header":       {key: "order-17", sent: sent(time.Hour), want: expired},
			"a young header":      {key: "order-17", sent: sent(time.Minute), want: core.Outlook{Result: event.Execute}},
			"a call has no head":  {key: "order-17", sent: sent(time.Minute), call: true, want: invalid},
			"an old call":         {key: oldKey(), call: true, want: expired},
			"a key of the future": {key: keyOf(time.Now().Add(time.Hour)), want: invalid},
		} {
			retry := retryOfPayment
			retry.Key, retry.Header = row.key, http.Header{"Content-Type": {"application/json"}}
			retry.Route = s.Routes()[len(s.Routes())-1]
			if row.sent != "" {
				retry.Header.Set("Repeatability-First-Sent", row.sent)
			}
			if row.call {
				retry.Method, retry.Target = storage.MethodCall, "charge"
			}
			explained, err := inspectorOf(t, s).Explain(t.Context(), retry)
			if err != nil || explained.Outlook != row.want {
				t.Errorf("%s: %+v, %v, want %+v", name, explained.Outlook, err, row.want)
			}
		}
		s.wantRuns(t, 1)
	})
}

// A young key allocates nothing more than a key on a route without KeyAge.
func TestKeyAgeAllocations(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	const runs = 2000
	var got [2]float64
	for i, opts := range [][]policy.Option{{policy.TTLHours(2)}, aged()} {
		x := newExchange(t, guarded(t, opts...))
		next, now := 0, time.Now()
		made := make([]string, 2*runs)
		for i := range made {
			made[i] = keyOf(now.Add(-time.Duration(i) * time.Millisecond))
		}
		got[i] = testing.AllocsPerRun(runs, func() { x.send(made[next]); next++ })
	}
	if got[1] > got[0] {
		t.Errorf("a first request allocates %v times with KeyAge, and %v times without", got[1], got[0])
	}
}

func TestKeyTime(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Millisecond)
	if made, has := core.KeyTime(keyOf(now)); !has || !made.Equal(now) {
		t.Errorf("the key was made at %v, %v, want %v", made, has, now)
	}
	if made, has := core.KeyTime("order-17"); has || !made.IsZero() {
		t.Errorf("a key without a time was made at %v, %v", made, has)
	}
}
