package adapters_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// mounting is one way to guard a route. The contract holds for each of them.
type mounting struct {
	name string
	// mount declares the route. It is guarded by the engine, or bare if that is nil.
	mount func(engine *core.Engine, r program) http.Handler
}

// program is a test's program, with one route. The defaults are POST /payments, created, one
// shared scope and a memory store.
type program struct {
	method, pattern string // the pattern as net/http and chi write it
	// handler is written once for all routers; on gin it gets c.Writer and
	// c.Request. native, if there is one, takes its place on gin.
	handler http.HandlerFunc
	native  gin.HandlerFunc
	policy  []policy.Option
	outside []middleware // around the guard, outermost first
	inside  []middleware // between the guard and the handler
	scope   core.Scope
	store   storage.Store
	options []core.Option
}

// middleware is one that every router can take in its own way.
type middleware struct {
	std func(http.Handler) http.Handler
	gin gin.HandlerFunc
}

var mountings = []mounting{
	{"net_http", onServeMux},
	{"chi/Policy", onChi(func(r chi.Router, guard *idemchi.Guard, rt program) {
		r.With(guard.Policy(rt.policy...)).Method(rt.method, rt.pattern, rt.std())
	})},
	{"chi/Handle", onChi(func(r chi.Router, guard *idemchi.Guard, rt program) {
		r.Method(rt.method, rt.pattern, guard.Handle(rt.std().ServeHTTP, rt.policy...))
	})},
	{"chi/group", onChi(func(r chi.Router, guard *idemchi.Guard, rt program) {
		r.Group(func(r chi.Router) {
			r.Use(guard.Policy(rt.policy...))
			r.Method(rt.method, rt.pattern, rt.std())
		})
	})},
	{"gin/Handle", onGin(func(r gin.IRouter, guard *idemgin.Guard, rt program) {
		chain := rt.chain()
		chain[0] = guard.Handle(chain[0], rt.policy...)
		r.Handle(rt.method, rt.ginPattern(), chain...)
	})},
	{"gin/Policy", onGin(func(r gin.IRouter, guard *idemgin.Guard, rt program) {
		chain := append(gin.HandlersChain{guard.Policy(rt.policy...)}, rt.chain()...)
		r.Handle(rt.method, rt.ginPattern(), chain...)
	})},
	{"gin/group", onGin(func(r gin.IRouter, guard *idemgin.Guard, rt program) {
		r.Group("/", guard.Policy(rt.policy...)).Handle(rt.method, rt.ginPattern(), rt.chain()...)
	})},
}

// onEveryRouter runs a test for each mounting.
func onEveryRouter(t *testing.T, test func(t *testing.T, m mounting)) {
	t.Helper()
	onRouters(t, everyRouter, test)
}

// Prefixes of the names of mountings.
const everyRouter, ginRouters = "", "gin/"

// onCase runs a case of a test for each mounting whose name begins with prefix.
func onCase(t *testing.T, name, prefix string, test func(t *testing.T, m mounting)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		onRouters(t, prefix, test)
	})
}

// inABubble runs each test in a bubble of its own, where time stands still while it works.
func inABubble(test func(t *testing.T, m mounting)) func(t *testing.T, m mounting) {
	return func(t *testing.T, m mounting) { synctest.Test(t, func(t *testing.T) { test(t, m) }) }
}

// onRouters runs a test for each mounting whose name begins with prefix.
func onRouters(t *testing.T, prefix string, test func(t *testing.T, m mounting)) {
	t.Helper()
	for _, m := range mountings {
		if !strings.HasPrefix(m.name, prefix) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			test(t, m)
		})
	}
}

// isGin reports whether gin's own behaviour is the reference.
func (m mounting) isGin() bool { return strings.HasPrefix(m.name, "gin/") }

func onServeMux(engine *core.Engine, r program) http.Handler {
	handler := r.std()
	if engine != nil {
		handler = engine.Handler(handler, r.policy...)
	}
	mux := http.NewServeMux()
	mux.Handle(r.method+" "+r.pattern, handler)
	return wrap(mux, r.outside)
}

func onChi(declare func(chi.Router, *idemchi.Guard, program)) func(*core.Engine, program) http.Handler {
	return func(engine *core.Engine, r program) http.Handler {
		router := chi.NewRouter()
		for _, m := range r.outside {
			router.Use(m.std)
		}
		if engine == nil {
			router.Method(r.method, r.pattern, r.std())
		} else {
			declare(router, idemchi.New(engine), r)
		}
		return router
	}
}

func onGin(declare func(gin.IRouter, *idemgin.Guard, program)) func(*core.Engine, program) http.Handler {
	return func(engine *core.Engine, r program) http.Handler {
		router := gin.New()
		for _, m := range r.outside {
			if m.gin != nil {
				router.Use(m.gin)
			}
		}
		if engine == nil {
			router.Handle(r.method, r.ginPattern(), r.chain()...)
		} else {
			declare(router, idemgin.New(engine), r)
		}
		var handler http.Handler = router
		for _, m := range slices.Backward(r.outside) { // net/http middleware goes around gin
			if m.gin == nil {
				handler = m.std(handler)
			}
		}
		return handler
	}
}

// std returns the handler with the middleware inside the guard.
func (r program) std() http.Handler { return wrap(r.handler, r.inside) }

// chain is std as gin chains it.
func (r program) chain() gin.HandlersChain {
	var chain gin.HandlersChain
	for _, m := range r.inside {
		chain = append(chain, m.gin)
	}
	if r.native != nil {
		return append(chain, r.native)
	}
	return append(chain, gin.WrapF(r.handler))
}

// ginPattern writes /payments/{id} as /payments/:id.
func (r program) ginPattern() string {
	return strings.NewReplacer("{", ":", "}", "").Replace(r.pattern)
}

func wrap(handler http.Handler, around []middleware) http.Handler {
	for _, m := range slices.Backward(around) {
		handler = m.std(handler)
	}
	return handler
}

// before is middleware that does something before the rest.
func before(do func(w http.ResponseWriter, r *http.Request)) middleware {
	return middleware{
		std: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				do(w, r)
				next.ServeHTTP(w, r)
			})
		},
		gin: func(c *gin.Context) { do(c.Writer, c.Request) },
	}
}
