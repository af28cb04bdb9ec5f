package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

type order struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
	SentAt string `json:"sent_at,omitempty"`
}

type receipt struct {
	Number int64 `json:"number"`
}

func chargeCall(key string, input any) core.Call {
	return core.Call{Scope: "orders", Name: "charge", Key: key, Input: input}
}

func (s *service) charge(ctx context.Context, call core.Call) (receipt, core.Info, error) {
	return core.Do(ctx, s.Engine, call, func(context.Context) (receipt, error) {
		return receipt{s.runs.Add(1)}, nil
	})
}

func TestDoRunsOnceAndReplays(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	for try := range 3 {
		got, info, err := s.charge(t.Context(), chargeCall("k1", order{ID: "o-1", Amount: 100}))
		if err != nil || got.Number != 1 || info.Replayed != (try > 0) || info.Attempt != 1 {
			t.Errorf("call %d returned %+v, %+v, %v", try+1, got, info, err)
		}
	}
	for _, other := range []core.Call{
		chargeCall("k2", nil),
		{Scope: "returns", Name: "charge", Key: "k1"},
		{Scope: "orders", Name: "refund", Key: "k1"},
	} {
		if _, info, err := s.charge(t.Context(), other); err != nil || info.Replayed {
			t.Errorf("%+v returned %+v, %v, want a run of its own", other, info, err)
		}
	}
	s.wantRuns(t, 4)
}

// A call's name is never read as a pattern with a method.
func TestEndpointOfCalls(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	if _, _, err := s.charge(t.Context(), core.Call{Scope: "orders", Name: "charge card", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	if event := s.events.all[0]; event.Endpoint() != "CALL charge card" || event.Route != "charge card" {
		t.Errorf("the endpoint is %q, the route %q", event.Endpoint(), event.Route)
	}
}

func TestDoRefusesAnotherInput(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	call := chargeCall("k1", order{ID: "o-1", Amount: 100, SentAt: "10:00"})
	call.Route = s.MustRoute(policy.ExcludeFields("sent_at"))
	_, _, first := s.charge(t.Context(), call)
	call.Input = order{ID: "o-1", Amount: 100, SentAt: "10:01"}
	_, retry, second := s.charge(t.Context(), call)
	call.Input = order{ID: "o-1", Amount: 999}
	_, _, third := s.charge(t.Context(), call)
	if first != nil || second != nil || !retry.Replayed || !errors.Is(third, core.ErrKeyReused) {
		t.Errorf("got %v, %v %+v, %v", first, second, retry, third)
	}
	refused, ok := errors.AsType[*core.RefusedError](third)
	if !ok || refused.Problem.Code != problem.KeyReused || !strings.Contains(third.Error(), "key_reused") {
		t.Errorf("the error is %v, want a RefusedError that names key_reused", third)
	}
}

// Errors are classified by package failure.
func TestDoAndErrors(t *testing.T) {
	t.Parallel()
	broke := errors.New("card declined")
	type row struct {
		err    error
		mark   bool
		kept   bool
		result event.Result
	}
	testkit.EachInBubble(t, map[string]row{
		"an error releases the key":                {broke, false, false, event.DeleteKey},
		"a retryable one, too":                     {failure.Retryable(broke), false, false, event.Retryable},
		"a permanent one is kept":                  {failure.Permanent(broke), false, true, event.Failed},
		"any is kept after the point of no return": {broke, true, true, event.Failed},
		"even a retryable one":                     {failure.Retryable(broke), true, true, event.Failed},
	}, func(t *testing.T, row row) {
		s := newService(t, memstore.New(), created)
		for try := range 2 {
			got, info, err := core.Do(t.Context(), s.Engine, chargeCall("k", nil), func(ctx context.Context) (receipt, error) {
				if row.mark {
					failure.MarkExecuted(ctx)
				}
				return receipt{s.runs.Add(1)}, row.err
			})
			if got != (receipt{}) || err == nil || err.Error() != "card declined" || failure.IsPermanent(err) != row.kept {
				t.Errorf("call %d returned %+v, %v", try+1, got, err)
			}
			if replayed := try > 0 && row.kept; info.Replayed != replayed || errors.Is(err, broke) == replayed {
				t.Errorf("call %d: %+v, %v", try+1, info, err)
			}
		}
		runs := 2
		if row.kept {
			runs = 1
		}
		s.wantRuns(t, int64(runs))
		s.wantEvent(t, row.result, runs)
	})
}

// A consumer drops a message after a permanent error, so one whose key is not kept must not be permanent.
func TestPermanentErrorIsReleased(t *testing.T) {
	t.Parallel()
	broke := errors.New("card declined")
	rows := map[string]func(context.Context) error{
		"marked retryable": func(ctx context.Context) error { failure.MarkRetryable(ctx); return failure.Permanent(broke) },
		"marked uncertain": func(ctx context.Context) error { failure.MarkUncertain(ctx); return failure.Permanent(broke) },
		"retryable inside": func(context.Context) error { return failure.Permanent(failure.Retryable(broke)) },
		"retryable around": func(context.Context) error { return failure.Retryable(failure.Permanent(broke)) },
		"uncertain inside": func(context.Context) error { return failure.Permanent(failure.Uncertain(broke)) },
	}
	testkit.EachInBubble(t, rows, func(t *testing.T, function func(context.Context) error) {
		s := newService(t, memstore.New(), created)
		for run := range int64(2) {
			_, _, err := core.Do(t.Context(), s.Engine, chargeCall("k", nil), func(ctx context.Context) (int, error) {
				s.runs.Add(1)
				return 0, function(ctx)
			})
			if failure.IsPermanent(err) || !errors.Is(err, broke) {
				t.Errorf("Do returned %v, permanent: %t", err, failure.IsPermanent(err))
			}
			s.wantRuns(t, run+1)
			time.Sleep(time.Minute) //nolint:forbidigo // moves the fake clock past the lease of the uncertain ones
		}
	})
}

func TestDoPanics(t *testing.T) {
	t.Parallel()
	for _, executed := range []bool{false, true} {
		s := newService(t, memstore.New(), created)
		value := recovered(func() {
			_, _, _ = core.Do(t.Context(), s.Engine, chargeCall("k", nil), func(ctx context.Context) (int, error) {
				if executed {
					failure.MarkExecuted(ctx)
				}
				panic("broken")
			})
		})
		_, info, err := s.charge(t.Context(), chargeCall("k", nil))
		if value != "broken" || executed != info.Replayed || executed != failure.IsPermanent(err) {
			t.Errorf("executed %t: the panic became %v, and the next call returned %+v, %v", executed, value, info, err)
		}
	}
}

// Case 1: a caller that gives up does not stop the function half-way.
func TestDoOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := core.Do(ctx, s.Engine, chargeCall("k", nil), func(ctx context.Context) (receipt, error) {
		cancel()
		if ctx.Err() != nil {
			t.Error("the function's context ended with its caller's")
		}
		if _, _, err := s.charge(t.Context(), chargeCall("k", nil)); !errors.Is(err, core.ErrInProgress) {
			t.Errorf("a concurrent call returned %v, want ErrInProgress", err)
		}
		if core.KeyFrom(ctx) != "k" || core.DeriveKey(ctx, "provider") == "" {
			t.Error("the function's context has no key")
		}
		return receipt{s.runs.Add(1)}, nil
	})
	if _, info, again := s.charge(t.Context(), chargeCall("k", nil)); err != nil || again != nil || !info.Replayed {
		t.Errorf("got %v, then %+v, %v", err, info, again)
	}
}

func TestDoWithoutStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(&store.acquire)(failUnapplied)
		s := newService(t, store, created)
		if _, _, err := s.charge(t.Context(), chargeCall("k", nil)); !errors.Is(err, core.ErrUnavailable) || errors.Is(err, errStoreDown) || !strings.HasSuffix(err.Error(), "("+errStoreDown.Error()+")") {
			t.Errorf("it returned %v, want ErrUnavailable with the text of the cause", err)
		}
		s.wantRuns(t, 0)
		open := chargeCall("k", nil)
		open.Route = s.MustRoute(policy.OnStoreError(policy.FailOpen))
		if _, info, err := s.charge(t.Context(), open); err != nil || info.Attempt != 0 {
			t.Errorf("it returned %+v, %v, want an unprotected run", info, err)
		}
		s.wantRuns(t, 1)
	})
}

// The store's reply to the settlement is lost. The result stays valid.
func TestDoWhenTheStoreBlips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, created)
		store.set(&store.complete)(failUnapplied)
		if got, _, err := s.charge(t.Context(), chargeCall("k", nil)); err != nil || got.Number != 1 {
			t.Errorf("it returned %+v, %v", got, err)
		}
		store.set(&store.complete)(nil)
		advance(time.Second)
		other := newService(t, store, created)
		if got, info, err := other.charge(t.Context(), chargeCall("k", nil)); err != nil || got.Number != 1 || !info.Replayed {
			t.Errorf("another process got %+v, %+v, %v, want the first result", got, info, err)
		}
	})
}

// Another attempt holds the key. The result must not be used.
func TestDoWhoseLeaseIsLost(t *testing.T) {
	t.Parallel()
	store := newFaultyStore()
	store.set(&store.complete)(failing(storage.ErrLeaseLost))
	s := newService(t, store, created)
	got, _, err := s.charge(t.Context(), chargeCall("k", nil))
	if !errors.Is(err, storage.ErrLeaseLost) || got != (receipt{}) {
		t.Errorf("it returned %+v, %v, want no result and ErrLeaseLost", got, err)
	}
}

func TestDoNamesTheWrongField(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	tests := []struct {
		call  core.Call
		names string
		code  string // of a RefusedError
	}{
		{core.Call{Name: "charge", Key: "k"}, "Call.Scope is empty", ""},
		{core.Call{Scope: "s", Key: "k"}, "Call.Name is empty", ""},
		{core.Call{Scope: "s", Name: "charge"}, `Call.Key of "charge" is empty`, problem.KeyMissing},
		{core.Call{Scope: "s", Name: "charge", Key: strings.Repeat("k", 256)}, "256 bytes", problem.KeyInvalid},
		{core.Call{Scope: "s", Name: "charge", Key: "k", Input: func() {}}, `Call.Input of "charge"`, ""},
	}
	for _, test := range tests {
		_, _, err := s.charge(t.Context(), test.call)
		if err == nil || !strings.Contains(err.Error(), test.names) {
			t.Errorf("it returned %v, want an error with %s", err, test.names)
		}
		if refused, is := errors.AsType[*core.RefusedError](err); is != (test.code != "") || is && refused.Problem.Code != test.code {
			t.Errorf("it returned %v, want the code %q", err, test.code)
		}
	}
	if s.wantRuns(t, 0); s.events.count(event.Refused) != len(tests) {
		t.Errorf("the events are %v", s.events.results())
	}
}

// Fields of a policy that are about requests of HTTP change no call.
func TestDoIgnoresFieldsAboutRequests(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	call := chargeCall("k", strings.Repeat("i", 100))
	call.Route = s.MustRoute(policy.Methods("PUT"), policy.KeyField("id"), policy.KeyFormat(policy.UUIDKey), policy.IncludeHeaders("X-Api-Version"),
		policy.KeepHeaders("Set-Cookie"), policy.MaxRequestBytes(1), policy.SkipIf(func(*http.Request) bool { return true }))
	for n := range 2 {
		if _, info, err := s.charge(t.Context(), call); err != nil || info.Replayed != (n == 1) {
			t.Errorf("call %d: %+v, %v", n+1, info, err)
		}
	}
	s.wantRuns(t, 1)
}

// An inner call with the same key is a part of the outer call.
func TestDoWithinItself(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	got, _, err := core.Do(t.Context(), s.Engine, chargeCall("k", nil), func(ctx context.Context) (receipt, error) {
		inner, _, err := s.charge(ctx, chargeCall("k", nil))
		return inner, err
	})
	if err != nil || got.Number != 1 {
		t.Errorf("it returned %+v, %v", got, err)
	}
}

// A queue in the process may hand the function's context on to the next delivery. That is no part of a run that has ended.
func TestDoWithTheContextOfAnEndedRun(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	handed := []context.Context{t.Context()}
	for try := range 4 {
		_, info, err := core.Do(handed[len(handed)-1], s.Engine, chargeCall("k", nil), func(ctx context.Context) (int, error) {
			handed = append(handed, ctx)
			if s.runs.Add(1) == 1 {
				return 0, errors.New("busy")
			}
			return 1, nil
		})
		if (err != nil) != (try == 0) || info.Replayed != (try > 1) || info.Attempt != 1 {
			t.Errorf("call %d: %+v, %v", try+1, info, err)
		}
	}
	s.wantRuns(t, 2)
}

// A function that ran must not run again because its result cannot be kept.
func TestDoWithResultsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	small := s.MustRoute(policy.MaxResponseBytes(8))
	for name, value := range map[string]any{"too large": strings.Repeat("a", 100), "not JSON": func() {}} {
		call := chargeCall(name, nil)
		call.Route = small
		function := func(context.Context) (any, error) { s.runs.Add(1); return value, nil }
		got, _, err := core.Do(t.Context(), s.Engine, call, function)
		if err != nil || got == nil {
			t.Errorf("%s: it returned %v, %v, want the result", name, got, err)
		}
		if _, _, err := core.Do(t.Context(), s.Engine, call, function); !errors.Is(err, core.ErrNotReplayable) {
			t.Errorf("%s: the next call returned %v, want ErrNotReplayable", name, err)
		}
	}
	s.wantRuns(t, 2)
}

// hostileCodec panics when it encodes a result.
type hostileCodec struct{ textCodec }

func (hostileCodec) Marshal(any) ([]byte, error) { panic("codec") }

// Case 39: a codec that panics while it encodes a result ends the run as a panic of
// the function does.
func TestDoWhoseCodecPanics(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	call := chargeCall("k", nil)
	call.Codec = hostileCodec{}
	testkit.Equal(t, recovered(func() { _, _, _ = s.charge(t.Context(), call) }), "codec", "the codec's panic became")
	if _, _, err := s.charge(t.Context(), call); !failure.IsPermanent(err) {
		t.Errorf("the next call returned %v, want the error that was kept", err)
	}
	s.wantRuns(t, 1)
	shutdown(t, s)
}

// textCodec is a codec that is not JSON.
type textCodec struct{}

func (textCodec) Marshal(v any) ([]byte, error) { return []byte(fmt.Sprint(v)), nil }

func (textCodec) Unmarshal(data []byte, v any) error {
	text, ok := v.(*string)
	if !ok {
		return fmt.Errorf("%T is no *string", v)
	}
	*text = string(data)
	return nil
}

func (textCodec) MediaType() string { return "text/plain" }

func TestDoWithAnotherCodec(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	call := chargeCall("k", "input")
	call.Codec = textCodec{}
	for range 2 {
		if got, _, err := core.Do(t.Context(), s.Engine, call, func(context.Context) (string, error) { return "\x00done", nil }); err != nil || got != "\x00done" {
			t.Errorf("it returned %q, %v", got, err)
		}
	}
	call.Input = "other"
	if _, _, err := s.charge(t.Context(), call); !errors.Is(err, core.ErrKeyReused) {
		t.Errorf("another input returned %v, want ErrKeyReused", err)
	}
	call.Input = "input"
	if _, _, err := s.charge(t.Context(), call); !errors.Is(err, core.ErrNotReplayable) || !strings.Contains(err.Error(), "cannot be decoded") {
		t.Errorf("another type returned %v, want an error that names the type, and says that the call has finished", err)
	}
}

// rawCodec copies nothing.
type rawCodec struct{ textCodec }

func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

// The caller of a codec that copies nothing may use the memory of a result again.
func TestDoKeepsNoMemoryOfACodec(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, created)
		store.set(&store.complete)(failUnapplied)
		call := chargeCall("k", nil)
		call.Codec = rawCodec{}
		for range 3 { // the function's own, and twice the store's
			result, _, err := core.Do(t.Context(), s.Engine, call, func(context.Context) ([]byte, error) { return []byte("alice"), nil })
			if string(result) != "alice" || err != nil {
				t.Errorf("it returned %q, %v", result, err)
			}
			copy(result, "david")
			store.set(&store.complete)(nil)
			advance(time.Second)
		}
	})
}

func TestDoRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		testkit.Win(t, store, storage.Claim{
			Key: storage.Key("orders", storage.MethodCall, "charge", "k"), Token: storage.NewToken(), Fingerprint: emptyCall,
			LockTTL: time.Second, Retain: time.Hour,
		})
		advance(2 * time.Second) // its process died
		s := newService(t, store, created)
		call := chargeCall("k", nil)
		call.Route = s.MustRoute(recovering(&policy.Response{Status: http.StatusOK, Body: []byte(`{"number":7}`)}, nil))
		if got, info, err := s.charge(t.Context(), call); err != nil || got.Number != 7 || !info.Replayed || info.Attempt != 2 {
			t.Errorf("it returned %+v, %+v, %v, want the recovered result", got, info, err)
		}
		s.wantRuns(t, 0)
	})
}

// emptyCall is the fingerprint of a charge without input.
var emptyCall = fingerprint.Of(fingerprint.Request{Method: storage.MethodCall, Path: "charge"}, nil)
