package core_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// New names the argument or the option that it refuses. Case 65: also one that is nil.
func TestNewRefusesNonsense(t *testing.T) {
	t.Parallel()
	over := func(store storage.Store, limit core.ScopeLimit) error {
		_, err := core.New(store, core.SharedScope, core.WithScopeLimit(limit))
		return err
	}
	limit := func(limit core.ScopeLimit) error { return over(memstore.New(), limit) }
	options := func(options ...core.Option) error {
		_, err := core.New(memstore.New(), core.SharedScope, options...)
		return err
	}
	scope := func(scope core.Scope) error { return failed(core.New(memstore.New(), scope)) }
	for _, row := range []struct {
		err  error
		want string
	}{
		{failed(core.New(nil, core.SharedScope)), "the store is nil"},
		{scope(nil), "the scope is nil: give core.ScopeBy(user), or core.SharedScope"},
		{scope(core.ScopeByHost(nil)), "the scope is nil"},
		{scope(core.ScopeBy(nil)), "the scope is nil"},
		{options(core.WithInstance("a"), nil), "option 2"},
		{options(core.WithObserver(nil)), "WithObserver is given nil"},
		{options(core.WithProblemWriter(nil)), "WithProblemWriter is given nil"},
		{options(core.WithOnReplay(nil)), "WithOnReplay is given nil"},
		{options(core.WithTrace(nil)), "WithTrace is given nil"},
		{options(core.WithPolicyCheck(nil)), "WithPolicyCheck is given nil"},
		{options(core.WithService("")), "WithService is given"},
		{options(core.WithDocs("/idempotency")), `WithDocs is given "/idempotency": give an absolute URL without a fragment`},
		{options(core.WithDocs("https://a.example/#keys")), `WithDocs is given "https://a.example/#keys": give an absolute URL`},
		{options(core.WithDocs("https://a.example/>")), `WithDocs is given "https://a.example/>": give an absolute URL`},
		{options(core.WithKeyHeader()), `WithKeyHeader is given no names: give at least one header name, such as Idempotency-Key`},
		{options(core.WithKeyHeader("X Key")), `WithKeyHeader is given "X Key": give a header name`},
		{options(core.WithKeyHeader("host")), `WithKeyHeader is given "host": give a header name`},
		{options(core.WithKeyHeader("X-Key", "x-key")), `WithKeyHeader is given "x-key" twice: once is enough`},
		{options(core.WithReplayHeader("X Replay")), `WithReplayHeader is given "X Replay"`},
		{options(core.WithReplayHeader("Trailer:Again")), `WithReplayHeader is given "Trailer:Again"`},
		{options(core.WithReplayHeader("idempotency-key")), `is given "Idempotency-Key", which carries the key: give another name`},
		{options(core.WithKeyHeader("X-Key"), core.WithExpiryHeader("X-Key")), `is given "X-Key", which carries the key: give another name`},
		{options(core.WithSettleBudget(60)), "WithSettleBudget is given 60ns"},
		{options(core.WithMaxUnsettled(0)), "WithMaxUnsettled is given 0"},
		{options(core.WithExpiryHeader("")), `WithExpiryHeader is given "": give a header name`},
		{options(core.WithExpiryHeader("a b")), `WithExpiryHeader is given "a b": give a header name`},
		{options(core.WithExpiryHeader("Trailer:A")), `WithExpiryHeader is given "Trailer:A": give a header name`},
		{options(core.WithExpiryHeader("x-idempotent-replay")), `WithExpiryHeader is given "X-Idempotent-Replay", which marks replays: give another name`},
		{options(core.WithExpiryHeader("X-Again"), core.WithReplayHeader("X-Again")), `WithExpiryHeader is given "X-Again", which marks replays: give another name`},
		{limit(core.ScopeLimit{}), "ScopeLimit.InFlight is 0: it must be above 0 where PerMinute is 0"},
		{limit(core.ScopeLimit{InFlight: -1, PerMinute: 1}), "ScopeLimit.InFlight is -1: it must be from 1 to 10000"},
		{limit(core.ScopeLimit{InFlight: 10_001}), "ScopeLimit.InFlight is 10001: it must be from 1 to 10000"},
		{limit(core.ScopeLimit{InFlight: 1, PerMinute: -1}), "ScopeLimit.PerMinute is -1: it must be above 0"},
		{over(newFaultyStore(), core.ScopeLimit{InFlight: 1}), "over *core_test.faultyStore, which cannot count the keys of a scope"},
		{over(wrapsNoLimiter{memstore.New()}, core.ScopeLimit{InFlight: 1}), "over core_test.wrapsNoLimiter, which cannot count the keys of a scope: "},
	} {
		if row.err == nil || !strings.HasPrefix(row.err.Error(), "oncekey: ") || !strings.Contains(row.err.Error(), row.want) {
			t.Errorf("got %v, want %s", row.err, row.want)
		}
	}
}

// failed returns the error of a call.
func failed(_ any, err error) error { return err }

// wrapsNoLimiter has the methods of a Limiter, over a store that is none.
type wrapsNoLimiter struct{ *memstore.Store }

func (wrapsNoLimiter) Limits() bool { return false }

// A bad policy is refused when the route is declared, and the error names the field.
func TestBadPoliciesPanicWhenDeclared(t *testing.T) {
	t.Parallel()
	engine := engineOf(t, memstore.New())
	for want, opt := range map[string]policy.Option{
		"policy: LockTTL is -1s": policy.LockTTL(-time.Second),
		"policy: Transactional is true: it must be false, because *memstore.Store has no transactions": policy.Transactional(true),
		`policy: ExcludeFields: fingerprint: cannot exclude "meta..id"`:                                policy.ExcludeFields("meta..id"),
		`policy: IncludeFields: fingerprint: cannot exclude "meta..id"`:                                policy.IncludeFields("meta..id"),
		`policy: RedactFields: fingerprint: cannot exclude "meta..id"`:                                 policy.RedactFields("meta..id"),
		`policy: KeyField: fingerprint: no member is at "items.*.id"`:                                  policy.KeyField("items.*.id"),
	} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}()
			engine.Handler(http.NotFoundHandler(), opt)
		}()
	}
	_, err := engine.Route(policy.ExcludeFields("a..b"), policy.KeyField("items.*.id"), policy.RedactFields("c..d"))
	for _, field := range []string{"ExcludeFields", "KeyField", "RedactFields"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want an error that names %s too", err, field)
		}
	}
}

func TestStatesAndTokensReadAsWritten(t *testing.T) {
	t.Parallel()
	for s := storage.InProgress; s <= storage.Expired; s++ {
		if got, ok := storage.ParseState(s.String()); !ok || got != s {
			t.Errorf("%v is read as %v", s, got)
		}
	}
	for _, s := range []storage.State{0, 9} {
		testkit.Equal(t, s.String(), "invalid", "the name of state %d", uint8(s))
	}
	if _, ok := storage.ParseState("invalid"); ok {
		t.Error("an invalid state was read")
	}
	token := storage.NewToken()
	if got, err := storage.ParseToken(token.String()); err != nil || got != token || token == storage.NewToken() {
		t.Errorf("%v is read as %v, %v", token, got, err)
	}
	for _, bad := range []string{"", "00", strings.Repeat("x", 32)} {
		if _, err := storage.ParseToken(bad); err == nil {
			t.Errorf("%q was read as a token", bad)
		}
	}
}

// A derived key is the same in every attempt, and different for every other
// step, key, scope and route. Outside of a guarded route there is none.
func TestDeriveKey(t *testing.T) {
	t.Parallel()
	var derived []string
	s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		derived = append(derived, core.DeriveKey(r.Context(), "charge"), core.DeriveKey(r.Context(), "mail"))
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	for _, key := range []string{"k", "k", "k2"} {
		s.post(t.Context(), key, payment)
	}
	s.postOf("bob", "k")
	testkit.EqualSlices(t, derived[:2], derived[2:4], "a second attempt got another key")
	testkit.Equal(t, core.DerivedKey(s.StorageKey("alice", http.MethodPost, "/payments", "k"), "charge"), derived[0], "DerivedKey for operators")
	testkit.Equal(t, core.KeyFrom(t.Context())+core.DeriveKey(t.Context(), "charge"), "", "outside of a guarded route")
	seen := map[string]bool{}
	for _, key := range derived[2:] {
		if len(key) != 64 || seen[key] {
			t.Errorf("%q is short or given twice", key)
		}
		seen[key] = true
	}
}

// Case 23: the parts of a storage key cannot be shifted against each other.
func TestStorageKey(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"a:b", "POST", "/p", "c"},
		{"a", "POST", "/p", "b:c"},
		{"a", "POST", "/pb", ":c"},
		{"", "aPOST", "/p", "b:c"},
		{"a", "PATCH", "/p", "b:c"},
		{"a", "POST", "/q", "b:c"},
		{"a\x00", "POST", "/p", "b:c"},
	} {
		key := storage.Key(parts[0], parts[1], parts[2], parts[3])
		if other, taken := seen[key]; taken || len(key) != 64 {
			t.Errorf("%q and %q share %s", parts, other, key)
		}
		seen[key] = parts
	}
}

func ExampleParseKey() {
	raw, _ := core.ParseKey("order-42")
	quoted, _ := core.ParseKey(`"order-42"`)
	fmt.Println(raw == quoted)

	_, err := core.ParseKey("order 42")
	fmt.Println(err)
	// Output:
	// true
	// Idempotency-Key must be 1 to 255 visible ASCII characters, raw or as one string in quotes
}
