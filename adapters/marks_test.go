package adapters_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// derived are contexts that a handler derives.
var derived = map[string]func(context.Context) (context.Context, context.CancelFunc){
	"itself": func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
	"with a value": func(ctx context.Context) (context.Context, context.CancelFunc) {
		type key struct{}
		return context.WithValue(ctx, key{}, "v"), func() {}
	},
	"with a timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Minute)
	},
	"without cancellation": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithoutCancel(ctx), func() {}
	},
	"already cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	},
}

// A mark counts through every derived context.
func TestMarksOnDerivedContexts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, derived, func(t *testing.T, derive func(context.Context) (context.Context, context.CancelFunc)) {
		mark := func(set func(context.Context) bool) http.HandlerFunc {
			return func(_ http.ResponseWriter, r *http.Request) {
				ctx, cancel := derive(r.Context())
				defer cancel()
				if !set(ctx) {
					t.Error("the mark does not count")
				}
			}
		}
		onEveryRouter(t, func(t *testing.T, m mounting) {
			again := m.start(t, program{handler: then(mark(markRetryable), created)})
			again.do(payment("k"))
			again.runsAgain(payment("k"))
			kept := m.start(t, program{handler: then(mark(failure.MarkExecuted), answering(500))})
			kept.do(payment("k"))
			kept.replays(payment("k"))
		})
	})
}

func markRetryable(ctx context.Context) bool { return failure.MarkRetryable(ctx) }

// A mark without effect returns false.
func TestMarksThatDoNotCount(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		marks := func(t *testing.T, when string, ctx context.Context, want bool) {
			t.Helper()
			testkit.Equal(t, failure.MarkRetryable(ctx), want, "%s: MarkRetryable returned", when)
			testkit.Equal(t, failure.MarkExecuted(ctx), want, "%s: MarkExecuted returned", when)
		}
		var kept context.Context
		s := m.start(t, program{
			policy:  []policy.Option{policy.Required(false)},
			outside: []middleware{before(func(_ http.ResponseWriter, r *http.Request) { marks(t, "outside", r.Context(), false) })},
			handler: func(w http.ResponseWriter, r *http.Request) {
				kept = r.Context() //nolint:fatcontext // what a goroutine left behind would have
				if core.KeyFrom(kept) == "" {
					marks(t, "without a key", kept, false)
					return
				}
				marks(t, "inside", kept, true)
				w.WriteHeader(http.StatusCreated)
				flush(w, r)
				marks(t, "streaming", kept, false)
			},
		})
		s.do(payment("", withoutKey))
		s.do(payment("k"))
		marks(t, "after the handler has returned", kept, false)
	})
}

// The handler can read the state of its run.
func TestHandlerReadsItsRun(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		var charge []string
		s := m.start(t, program{scope: user, pattern: "/payments/{id}", handler: func(w http.ResponseWriter, r *http.Request) {
			testkit.Equal(t, core.KeyFrom(r.Context()), `a"b`, "the key")
			if lease, ok := core.LeaseFrom(r.Context()); !ok || lease.Attempt != 1 || lease.LockTTL != policy.DefaultLockTTL {
				t.Errorf("the lease is %+v, %t", lease, ok)
			}
			charge = append(charge, core.DeriveKey(r.Context(), "charge"), core.DeriveKey(r.Context(), "refund"))
			w.WriteHeader(http.StatusServiceUnavailable)
		}})
		ask := func(path, name string) []string {
			charge = nil
			s.do(post(path, `"a\"b"`, amount, as(name)))
			return charge
		}
		first, retry := ask("/payments/1", "alice"), ask("/payments/1", "alice")
		if len(first[0]) != 64 || first[0] != retry[0] || first[1] != retry[1] {
			t.Errorf("the keys for the provider are %q, and %q in the retry", first, retry)
		}
		known := map[string]bool{}
		for _, keys := range [][]string{first, ask("/payments/2", "alice"), ask("/payments/1", "bob")} {
			for _, key := range keys {
				if known[key] {
					t.Errorf("%s is the key of two steps", key)
				}
				known[key] = true
			}
		}
	})
}

func TestOutsideAGuardedRoute(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	if key, step := core.KeyFrom(ctx), core.DeriveKey(ctx, "charge"); key != "" || step != "" {
		t.Errorf("the keys are %q and %q, want none", key, step)
	}
	if lease, ok := core.LeaseFrom(ctx); ok {
		t.Errorf("the lease is %+v, want none", lease)
	}
}

// gin's handlers use *gin.Context as their context, which by default does not include the
// request's context.
func TestMarksOnGinsContext(t *testing.T) {
	t.Parallel()
	for name, fallback := range map[string]bool{"default": false, "ContextWithFallback": true} {
		for how, derive := range derived {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				s := startGin(t, func(g *idemgin.Guard, e *gin.Engine) {
					e.ContextWithFallback = fallback
					e.POST("/payments", func(c *gin.Context) {
						if failure.MarkRetryable(c) || failure.MarkExecuted(c) || core.KeyFrom(c) != "" {
							t.Error("outside the guard there is nothing to mark")
						}
					}, g.Handle(func(c *gin.Context) {
						ctx, cancel := derive(c)
						defer cancel()
						testkit.Equal(t, core.KeyFrom(ctx), "k", "the key")
						if lease, ok := core.LeaseFrom(ctx); !ok || lease.Attempt != 1 {
							t.Errorf("the lease is %+v, %t", lease, ok)
						}
						if step := core.DeriveKey(ctx, "charge"); step == "" || step != core.DeriveKey(c.Request.Context(), "charge") {
							t.Errorf("the key of the step is %q", step)
						}
						if !failure.MarkRetryable(ctx) {
							t.Error("the mark does not count")
						}
						c.Status(http.StatusCreated)
					}))
				})
				s.do(payment("k"))
				s.reported(event.Retryable, 1)
			})
		}
	}
}

// A Retryable error that a gin handler reports releases the key.
func TestGinErrors(t *testing.T) {
	t.Parallel()
	duplicate := errors.New("duplicate e-mail")
	for _, row := range []struct {
		name   string
		err    error
		free   bool
		reason string // Case 43: a type, because the text may quote the request
	}{
		{"retryable", failure.Retryable(duplicate), true, "*failure.retryableError: *errors.errorString"},
		{"retryable inside another", errors.Join(errors.New("sign up"), failure.Retryable(duplicate)), true, "*errors.joinError"},
		{"any other", duplicate, false, ""},
	} {
		onCase(t, row.name, ginRouters, func(t *testing.T, m mounting) {
			s := m.start(t, program{
				// The guard ignores errors from before the guard.
				outside: []middleware{{gin: func(c *gin.Context) { _ = c.Error(failure.Retryable(errors.New("outside"))) }}},
				native: func(c *gin.Context) {
					_ = c.Error(row.err)
					c.JSON(http.StatusConflict, gin.H{"error": "taken"})
				},
			})
			s.do(payment("k"))
			if !row.free {
				s.replays(payment("k"))
				return
			}
			s.runsAgain(payment("k"))
			testkit.Equal(t, s.events.of(event.Retryable)[0].reason, row.reason, "the reason")
		})
	}
}
