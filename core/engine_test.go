package core_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

func TestNewRefusesNonsense(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		store storage.Store
		scope core.Scope
		opt   core.Option
		want  string
	}{
		"no store":               {nil, core.SharedScope, nil, "the store is nil"},
		"no scope":               {memstore.New(), nil, nil, "the scope is nil: give core.ScopeBy(user), or core.SharedScope"},
		"no observer":            {memstore.New(), core.SharedScope, core.WithObserver(nil), "WithObserver is given nil"},
		"no writer":              {memstore.New(), core.SharedScope, core.WithProblemWriter(nil), "WithProblemWriter is given nil"},
		"docs without a host":    {memstore.New(), core.SharedScope, core.WithDocs("/idempotency"), `WithDocs is given "/idempotency": give an absolute URL without a fragment`},
		"docs with a fragment":   {memstore.New(), core.SharedScope, core.WithDocs("https://a.example/#keys"), `WithDocs is given "https://a.example/#keys": give an absolute URL`},
		"docs that end the link": {memstore.New(), core.SharedScope, core.WithDocs("https://a.example/>"), `WithDocs is given "https://a.example/>": give an absolute URL`},
		"no replay function":     {memstore.New(), core.SharedScope, core.WithOnReplay(nil), `WithOnReplay is given nil`},
		"no key header":          {memstore.New(), core.SharedScope, core.WithKeyHeader(), `WithKeyHeader is given no names: give at least one header name, such as Idempotency-Key`},
		"bad key header":         {memstore.New(), core.SharedScope, core.WithKeyHeader("X Key"), `WithKeyHeader is given "X Key": give a header name`},
		"Host as key header":     {memstore.New(), core.SharedScope, core.WithKeyHeader("host"), `WithKeyHeader is given "host": give a header name`},
		"key header twice":       {memstore.New(), core.SharedScope, core.WithKeyHeader("X-Key", "x-key"), `WithKeyHeader is given "x-key" twice: once is enough`},
		"bad header":             {memstore.New(), core.SharedScope, core.WithReplayHeader("X Replay"), `WithReplayHeader is given "X Replay"`},
		"no budget":              {memstore.New(), core.SharedScope, core.WithSettleBudget(0), "WithSettleBudget is given 0s"},
		"no unsettled responses": {memstore.New(), core.SharedScope, core.WithMaxUnsettled(0), "WithMaxUnsettled is given 0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opts []core.Option
			if c.opt != nil {
				opts = append(opts, c.opt)
			}
			if _, err := core.New(c.store, c.scope, opts...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// A bad policy is refused when the route is declared, and the error names the field.
func TestBadPoliciesPanicWhenDeclared(t *testing.T) {
	t.Parallel()
	engine := engineOf(t, memstore.New())
	for want, opt := range map[string]policy.Option{
		"policy: LockTTL is -1s": policy.LockTTL(-time.Second),
		`policy: ExcludeFields: fingerprint: cannot exclude "meta..id"`: policy.ExcludeFields("meta..id"),
		`policy: IncludeFields: fingerprint: cannot exclude "meta..id"`: policy.IncludeFields("meta..id"),
		`policy: RedactFields: fingerprint: cannot exclude "meta..id"`:  policy.RedactFields("meta..id"),
		`policy: KeyField: fingerprint: no member is at "items.*.id"`:   policy.KeyField("items.*.id"),
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
}

func TestScopeFailures(t *testing.T) {
	t.Parallel()
	each(t, map[string]core.Scope{
		"empty principal": core.ScopeBy(func(*http.Request) (string, error) { return "", nil }),
		"fails":           core.ScopeBy(func(*http.Request) (string, error) { return "alice", errors.New("session store down") }),
	}, func(t *testing.T, scope core.Scope) {
		engine, err := core.New(memstore.New(), scope, core.WithObserver(&events{}))
		if err != nil {
			t.Fatal(err)
		}
		s := &service{Engine: engine, handler: engine.Handler(http.HandlerFunc(created))}
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusUnauthorized, problem.PrincipalMissing)
	})
}

func TestSharedScopeIsTheOptOut(t *testing.T) {
	t.Parallel()
	engine := engineOf(t, memstore.New())
	s := &service{Engine: engine, handler: engine.Handler(http.HandlerFunc(created))}
	wantFirst(t, s.post(t.Context(), "k", payment))
	wantReplay(t, s.post(t.Context(), "k", payment))
}

func TestOwnProblemWriterAndReplayHeader(t *testing.T) {
	t.Parallel()
	write := func(w http.ResponseWriter, r *http.Request, p problem.Problem) {
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(map[string]string{"message": p.Code + " on " + r.URL.Path})
	}
	engine, err := core.New(memstore.New(), core.SharedScope, core.WithProblemWriter(write),
		core.WithReplayHeader("x-again"), core.WithObserver(&events{}))
	if err != nil {
		t.Fatal(err)
	}
	s := &service{Engine: engine, handler: engine.Handler(http.HandlerFunc(created))}
	s.post(t.Context(), "k", payment)
	if w := s.post(t.Context(), "k", payment); w.Header().Get("X-Again") != "true" {
		t.Errorf("got %v", w.Header())
	}
	if w := s.post(t.Context(), "k", `{}`); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"key_reused on /payments"`) {
		t.Errorf("got %d %s", w.Code, w.Body)
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
		if s.String() != "invalid" {
			t.Errorf("state %d is called %v", uint8(s), s)
		}
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

func TestKeysOutsideAGuardedRoute(t *testing.T) {
	t.Parallel()
	if core.KeyFrom(t.Context())+core.DeriveKey(t.Context(), "charge") != "" {
		t.Error("KeyFrom or DeriveKey returned a key")
	}
}

// A derived key is the same in every attempt, and different for every other
// step, key, scope and route.
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
	other := newPost(t.Context(), "k", payment)
	other.Header.Set("Authorization", "Bearer bob")
	sendTo(s.handler, other)
	if derived[0] != derived[2] || derived[1] != derived[3] {
		t.Error("a second attempt got another key")
	}
	seen := map[string]bool{}
	for _, key := range []string{derived[0], derived[1], derived[4], derived[5], derived[6], derived[7]} {
		if len(key) != 64 || seen[key] {
			t.Errorf("%q is short or given twice", key)
		}
		seen[key] = true
	}
}
