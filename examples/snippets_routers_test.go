package examples_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func newEngine(t *testing.T) *core.Engine {
	t.Helper()
	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	testkit.Must(t, err)
	return engine
}

func payGin(c *gin.Context) { c.Status(http.StatusCreated) }

func TestOnGinAndNetHTTP(t *testing.T) {
	t.Parallel()
	engine, login, mux := newEngine(t), authenticate, http.NewServeMux()
	r := gin.New(func(e *gin.Engine) { e.ContextWithFallback = true }) // c ends with its run
	r.Use(gin.Recovery(), gin.BasicAuth(gin.Accounts{"alice": "pw"}))
	r.POST("/payments", idemgin.New(engine).Handle(payGin, policy.TTLHours(48)))
	guarded := engine.Handler(http.HandlerFunc(pay), policy.TTLHours(48)) // net/http
	mux.Handle("POST /payments", login(guarded))

	payTwice(t, mux, "/payments")
	w := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", nil)
	request.Header.Set(core.KeyHeader, "gin")
	request.SetBasicAuth("alice", "pw")
	if r.ServeHTTP(w, request); w.Code != http.StatusCreated {
		t.Errorf("gin responded with %d, want 201", w.Code)
	}
}

// cors stands for a package of the reader's choice.
var cors struct{ corsPackage }

type (
	corsPackage struct{}
	corsOptions struct{}
)

func (corsPackage) Handler(corsOptions) func(http.Handler) http.Handler { return authenticate }

func TestOrderOfMiddleware(t *testing.T) {
	t.Parallel()
	r, idem, options := chi.NewRouter(), idemchi.New(newEngine(t)), corsOptions{}
	r.Use(middleware.RequestID, middleware.Recoverer, cors.Handler(options), middleware.Compress(5), authenticate)
	r.With(idem.Policy(policy.TTLHours(48))).Post("/payments", pay)
	payTwice(t, r, "/payments")
}

func TestGroupOfRoutes(t *testing.T) {
	t.Parallel()
	pay, refund := payGin, payGin
	router, idem := gin.New(), idemgin.New(newEngine(t))
	router.ContextWithFallback = true
	v1 := router.Group("/v1", idem.Policy())
	v1.POST("/payments", idem.Handle(pay, policy.TTLHours(48))) // 48 hours
	v1.POST("/refunds", refund)                                 // the group's policy
	payTwice(t, router, "/v1/payments")
	payTwice(t, router, "/v1/refunds")
}

// transfers stands for a repository, which gets a context.
type transfers struct{ ended bool }

func (t *transfers) Transfer(ctx context.Context, to string) error {
	if to == "slow" {
		<-ctx.Done()
		t.ended = true
	}
	return ctx.Err()
}

func TestGinsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		idem, repository := idemgin.New(newEngine(t)), new(transfers)
		r := gin.New()
		r.ContextWithFallback = true
		r.POST("/transfers", idem.Handle(func(c *gin.Context) {
			if err := repository.Transfer(c, c.Query("to")); err != nil { // c is the context of the run
				c.Status(http.StatusServiceUnavailable)
				return
			}
			c.Status(http.StatusCreated)
		}))
		for to, want := range map[string]int{"bob": http.StatusCreated, "slow": http.StatusServiceUnavailable} {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/transfers?to="+to, nil)
			request.Header.Set(core.KeyHeader, to)
			w := httptest.NewRecorder()
			if r.ServeHTTP(w, request); w.Code != want {
				t.Errorf("got %d for %s, want %d", w.Code, to, want)
			}
		}
		if !repository.ended {
			t.Error("the repository did not notice MaxRun")
		}
	})
}

func TestRollOut(t *testing.T) {
	t.Parallel()
	idem := idemchi.New(newEngine(t))
	runs := 0
	pay := func(http.ResponseWriter, *http.Request) { runs++ }
	send := func(r http.Handler, key string) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", strings.NewReader(`{"amount":1}`))
		request.Header[core.KeyHeader] = []string{key}
		r.ServeHTTP(httptest.NewRecorder(), request)
	}
	observe := chi.NewRouter()
	{
		r := observe
		r.With(idem.Policy(policy.ObserveOnly(true))).Post("/payments", pay)
	}
	for range 2 {
		send(observe, "observed")
	}
	testkit.Equal(t, runs, 2, "runs of the route that observes")
	guard := chi.NewRouter()
	{
		r := guard
		r.With(idem.Policy(policy.Required(false))).Post("/payments", pay)
	}
	for range 2 {
		send(guard, "guarded")
	}
	testkit.Equal(t, runs, 3, "runs of both routes")
}
