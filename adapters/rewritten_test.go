package adapters_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

type chiMiddleware = func(http.Handler) http.Handler

// rewriter is middleware that sends a request for the path to the route of a row.
type rewriter struct {
	rewrite chiMiddleware
	path    string // of the request, which may have no route of its own
	method  string // POST where empty
	row     string // POST /payments where empty
	needs   string // chi, which has no context yet around the router
}

// toPath writes r.URL.Path, as most middleware does that is written by hand.
func toPath(from, to string) chiMiddleware {
	return before(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == from {
			r.URL.Path = to
		}
	}).std
}

// rewritings are the ways in which chi's own middleware, and middleware by hand, write
// the path.
var rewritings = map[string]rewriter{
	"PathRewrite":  {rewrite: chimiddleware.PathRewrite("/old", "/payments"), path: "/old"},
	"URLFormat":    {rewrite: chimiddleware.URLFormat, needs: "chi", path: "/payments.json"},
	"StripSlashes": {rewrite: chimiddleware.StripSlashes, path: "/payments/"},
	"CleanPath":    {rewrite: chimiddleware.CleanPath, needs: "chi", path: "/a/..//payments"},
	"StripPrefix":  {rewrite: chimiddleware.StripPrefix("/api"), path: "/api/payments"},
	"GetHead":      {rewrite: chimiddleware.GetHead, path: "/payments"},
	"URL.Path":     {rewrite: toPath("/old", "/payments"), path: "/old"},
	"URL.RawPath": {rewrite: before(func(_ http.ResponseWriter, r *http.Request) {
		r.URL.Path, r.URL.RawPath = "/a/b/payments", "/a%2Fb/payments"
	}).std, path: "/old", row: "POST /{bank}/payments"},
	"a copy of the request": {rewrite: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r = r.Clone(r.Context())
			r.URL.Path = "/payments"
			next.ServeHTTP(w, r)
		})
	}, path: "/old"},
	"RoutePath": {rewrite: before(func(_ http.ResponseWriter, r *http.Request) {
		if routing := chi.RouteContext(r.Context()); routing != nil {
			routing.RoutePath = "/payments"
		} else {
			r.URL.Path = "/payments"
		}
	}).std, path: "/old"},
	"into a router below": {rewrite: toPath("/old", "/v1/payments"), path: "/old", row: "POST /v1/payments"},
	"from a router below": {rewrite: toPath("/v1/old", "/payments"), path: "/v1/old"},
	"into a deep router":  {rewrite: toPath("/old", "/v1/of/7/payments"), path: "/old", row: "POST /v1/of/{id}/payments"},
	"method from POST":    {rewrite: toMethod(http.MethodPatch), path: "/members/7", row: "PATCH /members/{id}"},
	"method from GET":     {rewrite: toMethod(http.MethodPost), path: "/payments", method: http.MethodGet},
	"method and path at once": {rewrite: func(next http.Handler) http.Handler {
		return toMethod(http.MethodPatch)(toPath("/old", "/members/7")(next))
	}, path: "/old", row: "PATCH /members/{id}"},
}

// toMethod overrides the method, as forms and old proxies need it.
func toMethod(method string) chiMiddleware {
	return before(func(_ http.ResponseWriter, r *http.Request) { r.Method = method }).std
}

// rewritten are programs in which the rewriting is before the table or inside of it.
var rewritten = map[string]func(table chiMiddleware, m rewriter, declare func(chi.Router)) http.Handler{
	"around the router": func(table chiMiddleware, m rewriter, declare func(chi.Router)) http.Handler {
		r := chi.NewRouter()
		r.Use(table)
		declare(r)
		return m.rewrite(r)
	},
	"before the table": func(table chiMiddleware, m rewriter, declare func(chi.Router)) http.Handler {
		r := chi.NewRouter()
		r.Use(m.rewrite, table)
		declare(r)
		return r
	},
	"inside the table": func(table chiMiddleware, m rewriter, declare func(chi.Router)) http.Handler {
		r := chi.NewRouter()
		r.Use(table, m.rewrite)
		declare(r)
		return r
	},
	"inside the table, among others": func(table chiMiddleware, m rewriter, declare func(chi.Router)) http.Handler {
		r := chi.NewRouter()
		r.Use(chimiddleware.RequestID, table, chimiddleware.NoCache, m.rewrite, chimiddleware.WithValue("user", "alice"))
		declare(r)
		return r
	},
}

// start declares both routers of a program, and counts the effects.
func (m rewriter) start(t *testing.T, mount func(chiMiddleware, rewriter, func(chi.Router)) http.Handler, oldRoute bool) *service {
	t.Helper()
	row := m.row
	if row == "" {
		row = "POST /payments"
	}
	table := tableOf(t, policy.Row(row))
	return startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		return mount(idemchi.New(e).Table(table), m, func(r chi.Router) {
			r.Post("/payments", handler)
			r.Post("/{bank}/payments", handler)
			r.Patch("/members/{id}", handler)
			r.Route("/v1", func(r chi.Router) {
				r.Post("/payments", handler)
				r.Route("/of/{id}", func(r chi.Router) { r.With(chimiddleware.NoCache).Post("/payments", handler) })
			})
			if oldRoute {
				for _, path := range []string{"/old", "/payments.json", "/payments/", "/v1/old"} {
					r.HandleFunc(path, handler)
				}
			}
		})
	})
}

// onRewritings runs a test for each middleware, in each order.
func onRewritings(t *testing.T, test func(t *testing.T, start func(*testing.T) *service, sent func(key string) *http.Request)) {
	t.Helper()
	for order, mount := range rewritten {
		for name, m := range rewritings {
			if m.needs == "chi" && order == "around the router" {
				continue
			}
			for _, route := range []string{"no old route", "an old route"} {
				t.Run(order+"/"+name+"/"+route, func(t *testing.T) {
					t.Parallel()
					method := m.method
					if method == "" {
						method = http.MethodPost
					}
					test(t, func(t *testing.T) *service { return m.start(t, mount, route == "an old route") },
						func(key string) *http.Request { return post(m.path, key, amount, with(method)) })
				})
			}
		}
	}
}

// Cases 62 and 84: middleware rewrites the path before the table or inside of it. The
// handler that runs is guarded, whether the path from before has a route or not.
func TestRewrittenPath(t *testing.T) {
	t.Parallel()
	onRewritings(t, func(t *testing.T, start func(*testing.T) *service, sent func(string) *http.Request) {
		s := start(t)
		s.runsAgain(sent("k"))
		s.replays(sent("k"))
		s.replays(sent("k"))
		s.runsAgain(sent("other"))
		s.ran(2)
		s.claimed(4)
		s.reported(event.Execute, 2)
		s.reported(event.WrongSetup, 0)
	})
}

// Cases 62 and 84: of many requests at once, one has an effect.
func TestRewrittenPathAtOnce(t *testing.T) {
	t.Parallel()
	onRewritings(t, func(t *testing.T, start func(*testing.T) *service, sent func(string) *http.Request) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t)
			s.runsOnce(func() *http.Request { return sent("k") })
		})
	})
}

// A router that requests reach past a policy or a table keeps its handlers: replacing them
// would race with such requests.
func TestRouterMountedTwice(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(t *testing.T, root *chi.Mux, shared chi.Router, guard *idemchi.Guard){
		"with and without a table": func(t *testing.T, root *chi.Mux, shared chi.Router, guard *idemchi.Guard) {
			t.Helper()
			root.With(guard.Table(tableOf(t, policy.Row("POST /a/payments")))).Mount("/a", shared)
			root.Mount("/b", shared)
		},
		"with and without a table, in a router below": func(t *testing.T, root *chi.Mux, shared chi.Router, guard *idemchi.Guard) {
			t.Helper()
			root.Route("/", func(r chi.Router) {
				r.With(guard.Table(tableOf(t, policy.Row("POST /a/payments")))).Mount("/a", shared)
			})
			root.Mount("/b", shared)
		},
		"with and without a policy": func(_ *testing.T, root *chi.Mux, shared chi.Router, guard *idemchi.Guard) {
			shared.With(guard.Policy(policy.TTLHours(48))).Post("/refunds", created)
			root.With(guard.Policy()).Mount("/a", shared)
			root.With(chimiddleware.NoCache).Mount("/b", shared)
		},
		"two tables": func(t *testing.T, root *chi.Mux, shared chi.Router, guard *idemchi.Guard) {
			t.Helper()
			for _, path := range []string{"/a", "/b"} {
				root.Route(path, func(r chi.Router) {
					r.Use(guard.Table(tableOf(t, policy.Row("POST "+path+"/payments"))))
					r.Mount("/", shared)
				})
			}
		},
	}, func(t *testing.T, mount func(t *testing.T, root *chi.Mux, shared chi.Router, guard *idemchi.Guard)) {
		shared := chi.NewRouter()
		s := startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			root := chi.NewRouter()
			shared.Post("/payments", handler)
			mount(t, root, shared, idemchi.New(e))
			return root
		})
		s.runsAgain(post("/a/payments", "k", amount))
		s.replays(post("/a/payments", "k", amount))
		s.runsAgain(post("/b/payments", "k", amount))
		for _, route := range shared.Routes() {
			switch handler := route.Handlers[http.MethodPost].(type) {
			case http.HandlerFunc, *chi.ChainHandler:
			default:
				t.Errorf("the handler of %s is now a %T", route.Pattern, handler)
			}
		}
	})
}

// The first request replaces all handlers of a table or a policy, also those of tables and
// policies inside. Later replacements would race with the search of the outer one.
func TestHandlersAreReplacedOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(t *testing.T, r, below chi.Router, guard *idemchi.Guard){
		"two tables": func(t *testing.T, r, below chi.Router, guard *idemchi.Guard) {
			t.Helper()
			r.Use(guard.Table(tableOf(t, policy.Row("POST /payments"))))
			below.Use(guard.Table(tableOf(t, policy.Row("POST /v1/payments"))), chimiddleware.URLFormat)
		},
		"a policy and a table": func(t *testing.T, r, below chi.Router, guard *idemchi.Guard) {
			t.Helper()
			r.Use(guard.Policy())
			below.Use(guard.Table(tableOf(t, policy.Row("POST /v1/payments"))))
		},
		"three policies": func(_ *testing.T, r, below chi.Router, guard *idemchi.Guard) {
			r.Use(guard.Policy())
			below.Use(guard.Policy(policy.TTLHours(48)))
			below.With(guard.Policy(policy.TTLHours(72))).Post("/refunds", created)
		},
	}, func(t *testing.T, declare func(t *testing.T, r, below chi.Router, guard *idemchi.Guard)) {
		below := chi.NewRouter()
		s := startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r := chi.NewRouter()
			declare(t, r, below, idemchi.New(e))
			r.Post("/payments", handler)
			below.Post("/payments", handler)
			r.Mount("/v1", below)
			return r
		})
		s.runsAgain(post("/payments", "k", amount))
		first := below.Routes()[0].Handlers[http.MethodPost]
		s.runsAgain(post("/v1/payments", "k", amount))
		s.replays(post("/v1/payments", "k", amount))
		if strings.HasSuffix(t.Name(), "two_tables") {
			s.runsAgain(post("/v1/payments.json", "k", amount))
			s.replays(post("/v1/payments.json", "k", amount))
		}
		if later := below.Routes()[0].Handlers[http.MethodPost]; fmt.Sprintf("%p", later) != fmt.Sprintf("%p", first) {
			t.Errorf("the handler %T is replaced again", first)
		}
	})
}
