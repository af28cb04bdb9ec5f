package commerce_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/adapters/commerce"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// everyProblem writes each problem of the engine by a profile.
func everyProblem(t *testing.T, profile commerce.Profile, check func(t *testing.T, p *problem.Problem, status int, body map[string]any)) {
	t.Helper()
	for _, code := range problem.Codes() {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			p, w := problem.New(code, ""), httptest.NewRecorder()
			profile.WriteProblem(w, post("/", "k", ""), *p)
			var body map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("%v: %v %s", err, w.Header(), w.Body)
			}
			check(t, p, w.Code, body)
		})
	}
}

// Each option that breaks a rule of a protocol is refused where the route is declared, and the
// error names the option and the section. Other options are allowed.
func TestContradictions(t *testing.T) {
	t.Parallel()
	skip := policy.SkipIf(func(*http.Request) bool { return false })
	keepAll := policy.Classifier(func(failure.Outcome) failure.Class { return failure.ClassCache })
	common := map[string]policy.Option{
		"SkipIf":         skip,
		"IncludeHeaders": policy.IncludeHeaders("X-Version"),
		"RedactFields":   policy.RedactFields("secret"),
		"OnStoreError":   policy.OnStoreError(policy.FailOpen),
		"TTL":            policy.TTL(59 * time.Minute),
	}
	for _, row := range []struct {
		name    string
		profile commerce.Profile
		refused map[string]policy.Option
		allowed []policy.Option
	}{
		{"ACP", commerce.ACP(), map[string]policy.Option{
			"Required":                             policy.Required(false),
			"Methods":                              policy.Methods(http.MethodPatch),
			"KeyField":                             policy.KeyField("id"),
			"KeyFormat":                            policy.KeyFormat(policy.UUIDKey),
			"KeyAge":                               policy.KeyAge(time.Hour),
			"ExactBytes":                           policy.ExactBytes(true),
			"ExcludeFields":                        policy.ExcludeFields("timestamp"),
			"IncludeFields":                        policy.IncludeFields("items"),
			"OnAbandoned":                          policy.OnAbandoned(policy.Refuse),
			"Keep, Uncertain or Classifier":        policy.Keep("5xx"),
			"Keep, Uncertain or Classifier is 503": policy.Uncertain("503"),
			"Keep, Uncertain or Classifier is 500": keepAll,
			"TTL is 23h59m0s":                      policy.TTL(24*time.Hour - time.Minute),
			"Remember":                             policy.RememberHours(1),
		}, []policy.Option{policy.TTLHours(48), policy.Keep("409"), policy.Release("422"), policy.Wait(time.Second), policy.Methods("POST", "DELETE"), policy.LockTTL(time.Minute)}},
		{"UCP", commerce.UCP(), map[string]policy.Option{
			"KeyField":        policy.KeyField("id"),
			"KeyFormat":       policy.KeyFormat(policy.KeySyntax{}),
			"KeyFormat is .+": policy.KeyFormat(policy.KeyPattern(".+")),
			"ExactBytes":      policy.ExactBytes(false),
			"TTL is 23h59m0s": policy.TTL(24*time.Hour - time.Minute),
		}, []policy.Option{policy.TTLHours(24), policy.KeyFormat(policy.UUIDKey), policy.Required(false), policy.Methods("PUT"), policy.RememberHours(720), policy.OnAbandoned(policy.Refuse)}},
		{"AdCP", commerce.AdCP(), map[string]policy.Option{
			"Required":      policy.Required(false),
			"KeyField":      policy.KeyField("key"),
			"ExcludeFields": policy.ExcludeFields(".idempotency_key"),
			"ExcludeFields is [.idempotency_key .context .governance_context push_notification_config.authentication.credentials trace]": policy.ExcludeFields(".idempotency_key", ".context", ".governance_context", "push_notification_config.authentication.credentials", "trace"),
			"Keep or Classifier":        policy.Keep("404"),
			"Keep or Classifier is 300": policy.Classifier(failure.Classify),
			"TTL is 169h0m0s":           policy.TTLHours(169),
		}, []policy.Option{policy.TTLHours(1), policy.Remember(0), policy.OnAbandoned(policy.Refuse), policy.KeyFormat(policy.UUIDKey), policy.Wait(5 * time.Second)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			engine := newEngine(t, row.profile)
			declare := func(opt policy.Option) error {
				_, err := engine.Route(policy.From(row.profile.Policy), opt)
				return err
			}
			for _, all := range []map[string]policy.Option{common, row.refused} {
				for want, opt := range all {
					err := declare(opt)
					if field, is := errors.AsType[*policy.FieldError](err); !is || !strings.Contains(err.Error(), "policy: "+want) || !strings.Contains(field.Want, row.name) {
						t.Errorf("%s is accepted, or its error does not say so: %v", want, err)
					}
				}
			}
			for i, opt := range append(row.allowed, policy.Transactional(false), policy.ObserveOnly(true)) {
				if err := declare(opt); err != nil {
					t.Errorf("allowed option %d is refused: %v", i+1, err)
				}
			}
		})
	}
}

func newEngine(t *testing.T, profile commerce.Profile) *core.Engine {
	t.Helper()
	engine, err := core.New(memstore.New(), core.SharedScope, profile.Options()...)
	testkit.Must(t, err)
	return engine
}

// A table and a tag are judged too, each fault with its place.
func TestContradictionsInTables(t *testing.T) {
	t.Parallel()
	engine := newEngine(t, commerce.ACP())
	table, err := policy.NewTable(policy.Row("POST /checkout_sessions", policy.TTLHours(48)), policy.Row("POST /refunds", policy.TTLHours(1)))
	testkit.Must(t, err)
	testkit.Each(t, map[string]func() error{
		"a table": func() (err error) {
			defer func() { err, _ = recover().(error) }()
			idemchi.New(engine).Table(table)
			return nil
		},
		"a tag": func() error {
			return idemchi.Mount(chi.NewRouter(), idemchi.New(engine), struct {
				Refund http.HandlerFunc `route:"POST /refunds" idempotency:"TTLHours=1"`
			}{func(http.ResponseWriter, *http.Request) {}})
		},
	}, func(t *testing.T, declare func() error) {
		err := declare()
		if err == nil || !strings.Contains(err.Error(), "ACP 6.6") || !strings.Contains(err.Error(), "/refunds") || strings.Contains(err.Error(), "/checkout_sessions") {
			t.Errorf("the declaration says %v", err)
		}
	})
}

// The parts of a profile can be changed, and an option after them wins.
func TestProfileIsPlain(t *testing.T) {
	t.Parallel()
	profile := commerce.ACP()
	profile.ReplayHeader, profile.EchoKey = "", false
	check := profile.Check
	profile.Check = func(p *policy.Policy) error {
		if !p.Required {
			return nil // a migration
		}
		return check(p)
	}
	engine := newEngine(t, profile)
	testkit.Equal(t, engine.ReplayHeader(), "X-Idempotent-Replay", "the replay header")
	if _, err := engine.Route(policy.From(profile.Policy), policy.Required(false)); err != nil {
		t.Error(err)
	}
	w := httptest.NewRecorder()
	engine.Handler(create(http.StatusOK), policy.From(profile.Policy)).ServeHTTP(w, post("/", "k", "{}"))
	if w.Code != http.StatusOK || w.Header().Get("Idempotency-Key") != "" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
	if _, err := core.New(memstore.New(), core.SharedScope, commerce.Profile{}.Options()...); err == nil {
		t.Error("a profile without parts is accepted")
	}
}
