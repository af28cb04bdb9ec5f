package adapters_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// The same API in the types and the syntax of each router.
type chiAPI struct {
	Pay     http.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48 LockTTL=60s ExcludeFields=clientTimestamp"`
	Lenient http.HandlerFunc `route:"PATCH /members/{id}" idempotency:"Required=false"`
	Put     http.HandlerFunc `route:"PUT /members/{id}" idempotency:""`
	Plain   http.HandlerFunc `route:"POST /plain"`
	List    http.HandlerFunc `route:"GET /members"`
}

type ginAPI struct {
	Pay     gin.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48 LockTTL=60s ExcludeFields=clientTimestamp"`
	Lenient gin.HandlerFunc `route:"PATCH /members/:id" idempotency:"Required=false"`
	Put     gin.HandlerFunc `route:"PUT /members/:id" idempotency:""`
	Plain   gin.HandlerFunc `route:"POST /plain"`
	List    gin.HandlerFunc `route:"GET /members"`
}

// mounts declare that API on a router, or below a prefix.
var mounts = map[string]func(e *core.Engine, prefix string, handler http.HandlerFunc, also ...policy.Addition) (http.Handler, error){
	"chi": func(e *core.Engine, prefix string, handler http.HandlerFunc, also ...policy.Addition) (http.Handler, error) {
		router := chi.NewRouter()
		api := &chiAPI{handler, handler, handler, handler, handler}
		if prefix == "" {
			return router, idemchi.Mount(router, idemchi.New(e), api, also...)
		}
		var err error
		router.Route(prefix, func(r chi.Router) { err = idemchi.Mount(r, idemchi.New(e), api, also...) })
		return router, err
	},
	"gin": func(e *core.Engine, prefix string, handler http.HandlerFunc, also ...policy.Addition) (http.Handler, error) {
		router, native := gin.New(), gin.WrapF(handler)
		api := &ginAPI{native, native, native, native, native}
		if prefix == "" {
			return router, idemgin.Mount(router, idemgin.New(e), api, also...)
		}
		return router, idemgin.Mount(router.Group(prefix), idemgin.New(e), api, also...)
	},
}

// startMounted runs that API.
func startMounted(t *testing.T, router, prefix string, handler http.HandlerFunc, also ...policy.Addition) *service {
	t.Helper()
	var s *service
	s = everywhere(t, func(e *core.Engine) http.Handler {
		mounted, err := mounts[router](e, prefix, func(w http.ResponseWriter, r *http.Request) {
			s.runs.Add(1)
			handler(w, r)
		}, also...)
		testkit.Must(t, err)
		return mounted
	})
	return s
}

func onMounts(t *testing.T, test func(t *testing.T, router, prefix string)) {
	t.Helper()
	for router := range mounts {
		for _, prefix := range []string{"", "/v1"} {
			t.Run(router+prefix, func(t *testing.T) {
				t.Parallel()
				test(t, router, prefix)
			})
		}
	}
}

func with(method string) func(*http.Request) { return func(r *http.Request) { r.Method = method } }

func withoutKey(r *http.Request) { r.Header.Del(core.KeyHeader) }

// An annotated route keeps the policy of its tag.
func TestMount(t *testing.T) {
	t.Parallel()
	onMounts(t, func(t *testing.T, router, prefix string) {
		s := startMounted(t, router, prefix, created)
		s.runsAgain(post(prefix+"/payments", "k1", `{"amount":1,"clientTimestamp":1}`))
		s.replays(post(prefix+"/payments", "k1", `{"amount":1,"clientTimestamp":2}`))
		s.refuses(post(prefix+"/payments", "k1", `{"amount":2}`), 422, problem.KeyReused)
		s.refuses(post(prefix+"/payments", "", amount, withoutKey), 400, problem.KeyMissing)

		s.runsAgain(post(prefix+"/members/7", "k2", amount, with("PATCH")))
		s.replays(post(prefix+"/members/7", "k2", amount, with("PATCH")))
		s.runsAgain(post(prefix+"/members/7", "", amount, with("PATCH"), withoutKey))

		s.runsAgain(post(prefix+"/members/7", "k3", amount, with("PUT")))
		s.replays(post(prefix+"/members/7", "k3", amount, with("PUT")))

		for range 2 { // a handler without a policy runs every time
			s.runsAgain(post(prefix+"/plain", "k4", amount))
			s.runsAgain(httptest.NewRequest(http.MethodGet, prefix+"/members", nil))
		}
	})
}

// Also adds options that a tag cannot hold.
func TestMountAlso(t *testing.T) {
	t.Parallel()
	onMounts(t, func(t *testing.T, router, prefix string) {
		keep := policy.Classifier(func(failure.Outcome) failure.Class { return failure.ClassCache })
		s := startMounted(t, router, prefix, answering(500), policy.Also("Pay", keep))
		s.runsAgain(post(prefix+"/payments", "k1", amount))
		s.replays(post(prefix+"/payments", "k1", amount)) // a 500 is kept, which it is not by default
		s.runsAgain(post(prefix+"/members/7", "k1", amount, with("PATCH")))
		s.runsAgain(post(prefix+"/members/7", "k1", amount, with("PATCH")))
	})
}

type wrongChiAPI struct {
	Fine    http.HandlerFunc `route:"POST /fine" idempotency:""`
	Typo    http.HandlerFunc `route:"POST /typo" idempotency:"TtlHours=48"`
	List    http.HandlerFunc `route:"GET /list" idempotency:""`
	Nil     http.HandlerFunc `route:"POST /nil"`
	Commits http.HandlerFunc `route:"POST /commits" idempotency:"Transactional=true"`
	Path    http.HandlerFunc `route:"POST /path" idempotency:"ExcludeFields=a..b"`
	Pattern http.HandlerFunc `route:"POST /broken/{id"`
	Named   http.HandlerFunc `route:"POST /things/{name}/{part}"`
	Renamed http.HandlerFunc `route:"POST /things/{id}/{section}"`
	Taken   http.HandlerFunc `route:"POST /taken/{b}"`
	Search  http.HandlerFunc `route:"BREW /coffee"`
}

type wrongGinAPI struct {
	Fine    gin.HandlerFunc `route:"POST /fine" idempotency:""`
	Typo    gin.HandlerFunc `route:"POST /typo" idempotency:"TtlHours=48"`
	List    gin.HandlerFunc `route:"GET /list" idempotency:""`
	Nil     gin.HandlerFunc `route:"POST /nil"`
	Commits gin.HandlerFunc `route:"POST /commits" idempotency:"Transactional=true"`
	Path    gin.HandlerFunc `route:"POST /path" idempotency:"ExcludeFields=a..b"`
	Pattern gin.HandlerFunc `route:"POST /broken/:"`
	Named   gin.HandlerFunc `route:"POST /things/:name"`
	Renamed gin.HandlerFunc `route:"POST /things/:id"`
	Taken   gin.HandlerFunc `route:"POST /taken/:b"`
	Search  gin.HandlerFunc `route:"BR-EW /coffee"`
}

// Everything that is wrong is an error, all of it at once, each with its field;
// and Mount declares no route.
func TestMountThatIsWrong(t *testing.T) {
	t.Parallel()
	programs := map[string]func(*core.Engine) (http.Handler, error){
		"chi": func(e *core.Engine) (http.Handler, error) {
			router, h := chi.NewRouter(), http.HandlerFunc(created)
			router.Post("/taken/{a}", h)
			return router, idemchi.Mount(router, idemchi.New(e), wrongChiAPI{h, h, h, nil, h, h, h, h, h, h, h}, policy.Also("Fien", policy.TTLHours(1)))
		},
		"chi/Route": func(e *core.Engine) (root http.Handler, err error) {
			router, h := chi.NewRouter(), http.HandlerFunc(created)
			router.Route("/v1", func(r chi.Router) {
				r.Post("/taken/{a}", h)
				err = idemchi.Mount(r.With(), idemchi.New(e), wrongChiAPI{h, h, h, nil, h, h, h, h, h, h, h}, policy.Also("Fien", policy.TTLHours(1)))
			})
			return router, err
		},
		"gin": func(e *core.Engine) (http.Handler, error) {
			router, h := gin.New(), gin.WrapF(created)
			router.POST("/taken/:a", h)
			return router, idemgin.Mount(router, idemgin.New(e), wrongGinAPI{h, h, h, nil, h, h, h, h, h, h, h}, policy.Also("Fien", policy.TTLHours(1)))
		},
		"gin/Group": func(e *core.Engine) (http.Handler, error) {
			router, h := gin.New(), gin.WrapF(created)
			group := router.Group("/v1")
			group.POST("/taken/:a", h)
			return router, idemgin.Mount(group, idemgin.New(e), wrongGinAPI{h, h, h, nil, h, h, h, h, h, h, h}, policy.Also("Fien", policy.TTLHours(1)))
		},
	}
	testkit.Each(t, programs, func(t *testing.T, mount func(*core.Engine) (http.Handler, error)) {
		var err error
		s := everywhere(t, func(e *core.Engine) (router http.Handler) {
			router, err = mount(e)
			return router
		})
		lines := strings.Split(fmt.Sprint(err), "\n")
		for _, want := range []string{
			`.Typo: idempotency:"TtlHours=48": policy: unknown name "TtlHours": did you mean TTLHours?`,
			`.List: idempotency:"": a policy on GET`,
			`.Nil: route:"POST /nil": the handler is nil`,
			`.Commits: POST /commits: policy: Transactional is true: it must be false`,
			`.Path: POST /path: policy: ExcludeFields`,
			`.Pattern: the router refuses POST /broken/`,
			`.Renamed: `, // beside Named
			`.Taken: `,   // beside an earlier route
			`.Search: the router refuses BR`,
			`policy: Also is given "Fien": name a field that has a route`,
		} {
			reported := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.Contains(line, want) })
			if len(reported) != 1 {
				t.Errorf("%s is reported %d times in\n%v", want, len(reported), err)
			}
		}
		if len(lines) != 10 {
			t.Errorf("%d lines, want 10:\n%v", len(lines), err)
		}
		for _, path := range []string{"/fine", "/v1/fine", "/things/7/a", "/v1/things/7/a"} {
			s.gets(s.do(post(path, "k", amount)), http.StatusNotFound)
		}
	})
}

// Two fields whose patterns differ in a parameter's name alone are one route; in
// its regular expression, two.
func TestMountTellsChiPatternsApart(t *testing.T) {
	t.Parallel()
	type API struct {
		Number http.HandlerFunc `route:"POST /things/{id:[0-9]{1,3}}" idempotency:""`
		Long   http.HandlerFunc `route:"POST /things/{id:[0-9]{4}}" idempotency:""`
		Word   http.HandlerFunc `route:"POST /things/{id:[a-z]+}" idempotency:""`
		Any    http.HandlerFunc `route:"POST /things/{name}" idempotency:""`
		Rest   http.HandlerFunc `route:"POST /things/{name}/*" idempotency:""`
		Patch  http.HandlerFunc `route:"PATCH /things/{other}" idempotency:""`
	}
	name := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }
	}
	s := everywhere(t, func(e *core.Engine) http.Handler {
		router := chi.NewRouter()
		api := API{name("number"), name("long"), name("word"), name("any"), name("rest"), name("patch")}
		testkit.Must(t, idemchi.Mount(router, idemchi.New(e), api))
		return router
	})
	for path, want := range map[string]string{"/things/17": "number", "/things/1718": "long", "/things/abc": "word", "/things/A-1": "any", "/things/x/y": "rest"} {
		testkit.Equal(t, s.do(post(path, "k", amount)).Body.String(), want, "the server of %s", path)
		s.replays(post(path, "k", amount))
	}
}

// Mount cannot read the routes of a router that is not gin's. A panic of such a router is an
// error all the same.
func TestMountOnAnUnknownGinRouter(t *testing.T) {
	t.Parallel()
	router := gin.New()
	router.POST("/taken/:a", gin.WrapF(created))
	type API struct {
		Taken gin.HandlerFunc `route:"POST /taken/:b" idempotency:""`
	}
	err := idemgin.Mount(struct{ gin.IRouter }{router}, idemgin.New(engineFor(t)), API{gin.WrapF(created)})
	if want := "policy: API.Taken: the router refuses POST /taken/:b"; !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func engineFor(t *testing.T, opts ...core.Option) *core.Engine {
	t.Helper()
	engine, err := core.New(memstore.New(), core.SharedScope, opts...)
	testkit.Must(t, err)
	return engine
}
