package adapters_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
)

// everywhereRouters respond with URL.Path at every path, guarded on each router.
var everywhereRouters = map[string]declaring{
	"net_http": func(e *core.Engine, h http.HandlerFunc) http.Handler { return e.Handler(h) },
	"chi": func(e *core.Engine, h http.HandlerFunc) http.Handler {
		r := chi.NewRouter()
		r.With(idemchi.New(e).Policy()).Post("/*", h)
		return r
	},
	"gin": func(e *core.Engine, h http.HandlerFunc) http.Handler {
		r := gin.New()
		r.POST("/*all", idemgin.New(e).Handle(gin.WrapF(h)))
		return r
	},
}

func echoURLPath(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }

// subRequest is a handler's own request to another path.
func subRequest(r *http.Request, path, body string) *http.Request {
	sub := r.Clone(r.Context())
	sub.URL.Path, sub.URL.RawPath = path, ""
	sub.Body, sub.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return sub
}

// Case 54: an unguarded handler makes a sub-request. /refund does not get the response of
// /pay.
func TestSubRequestIsKnownByItsPath(t *testing.T) {
	t.Parallel()
	testkit.Each(t, everywhereRouters, func(t *testing.T, guarded declaring) {
		s := everywhere(t, func(e *core.Engine) http.Handler {
			parts := guarded(e, echoURLPath)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				parts.ServeHTTP(w, subRequest(r, r.Header.Get("Part"), amount))
			})
		})
		for _, part := range []string{"/pay", "/refund", "/v2/batch", "/other"} {
			sent := post("/v1/batch", "k", amount, header("Part", part))
			if answer := s.do(sent); answer.Body.String() != part || isReplay(answer) {
				t.Errorf("%s got the response of %s", part, answer.Body)
			}
			s.gets(s.replays(sent), anyStatus, part)
		}
		if answer := s.do(post("/pay", "k", amount, header("Part", "/pay"))); answer.Body.String() != "/pay" || !isReplay(answer) {
			t.Errorf("/pay itself got %s", answer.Body)
		}
	})
}

// Case 54: a guarded handler makes sub-requests and breaks down. Its next attempt
// gets the parts that are done as replays.
func TestSubRequestInAGuardedHandler(t *testing.T) {
	t.Parallel()
	testkit.Each(t, everywhereRouters, func(t *testing.T, guarded declaring) {
		paid := 0
		s := everywhere(t, func(e *core.Engine) http.Handler {
			parts := guarded(e, func(w http.ResponseWriter, r *http.Request) {
				paid++
				echoURLPath(w, r)
			})
			return guarded(e, func(w http.ResponseWriter, r *http.Request) {
				for _, part := range []string{"/pay", "/v2/batch"} {
					answer := httptest.NewRecorder()
					parts.ServeHTTP(answer, subRequest(r, part, amount))
					if answer.Body.String() != part {
						t.Errorf("%s got the response of %s", part, answer.Body)
					}
				}
				w.WriteHeader(http.StatusInternalServerError)
			})
		})
		for range 2 {
			s.do(post("/v1/batch", "k", amount))
		}
		testkit.Equal(t, paid, 2, "runs of the parts")
	})
}

// absolute writes the request's target as a client does that talks to a proxy.
func absolute(r *http.Request) {
	r.RequestURI = "http://shop.example" + r.RequestURI
	r.URL, _ = url.ParseRequestURI(r.RequestURI)
}

// Case 54: the absolute form of a target names the same resource, and two mounts
// stay two.
func TestAbsoluteTarget(t *testing.T) {
	t.Parallel()
	testkit.Each(t, everywhereRouters, func(t *testing.T, guarded declaring) {
		s := everywhere(t, func(e *core.Engine) http.Handler {
			payments := guarded(e, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("Asked")) })
			mux := http.NewServeMux()
			mux.Handle("/v1/", http.StripPrefix("/v1", payments))
			mux.Handle("/v2/", http.StripPrefix("/v2", payments))
			return mux
		})
		for _, path := range []string{"/v1/pay", "/v2/pay", "/v1/a%2Fb", "/v1/a/b", "/v2/"} {
			asked := header("Asked", path)
			if answer := s.do(post(path+"?a=1", "k", amount, asked, absolute)); answer.Body.String() != path || isReplay(answer) {
				t.Errorf("%s got the response of %s", path, answer.Body)
			}
			s.gets(s.replays(post(path+"?a=1", "k", amount, asked)), anyStatus, path)
		}
	})
}

// Cases 25 and 61: an escaped slash is part of a name, beside any other text.
func TestEscapedSlashBesideOtherCharacters(t *testing.T) {
	t.Parallel()
	for name, guarded := range everywhereRouters {
		for _, other := range []string{"", "|", "^", "`", "{", "\u00e9", "%7C", "%25"} {
			t.Run(name+"/"+other, func(t *testing.T) {
				t.Parallel()
				s := everywhere(t, func(e *core.Engine) http.Handler { return guarded(e, created) })
				at := func(path string) *http.Request {
					return post("/", "k", amount, func(r *http.Request) {
						r.RequestURI = path
						r.URL, _ = url.ParseRequestURI(path)
					})
				}
				for _, path := range []string{"/x/y", "/x%2Fy", "/x%252Fy"} {
					if answer := s.do(at(path + other)); isReplay(answer) {
						t.Errorf("%s%s got the response of another path", path, other)
					}
					s.replays(at(path + other))
				}
				s.replays(at("/x%2fy" + other)) // another spelling
			})
		}
	}
}

// Case 55
func TestScopeByHost(t *testing.T) {
	t.Parallel()
	at := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{scope: core.ScopeByHost(user)})
		s.runsAgain(payment("k", as("alice"), at("a.example")))
		s.runsAgain(payment("k", as("alice"), at("b.example")))
		s.runsAgain(payment("k", as("bob"), at("b.example")))
		for _, host := range []string{"a.example", "A.Example", "a.example:80", "a.example:443", "a.example.", "a.example.:443", "a.example:"} {
			s.replays(payment("k", as("alice"), at(host)))
		}
		s.runsAgain(payment("k", as("alice"), at("a.example:8080")))
		s.replays(payment("k", as("alice"), at("A.example.:8080")))
		s.runsAgain(payment("k", as("alice"), at("[::1]")))
		s.replays(payment("k", as("alice"), at("[::1]:80")))
		s.refuses(payment("k", as(""), at("a.example")), http.StatusUnauthorized, problem.PrincipalMissing)
		for _, host := range []string{"a.example b", ""} {
			s.refuses(payment("k", as("c"), at(host)), http.StatusUnauthorized, problem.PrincipalMissing)
		}
	})
}

// Case 55: without it, a client that returns through another host name is the
// same client and does not pay twice.
func TestHostIsNotPartOfTheName(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{scope: user})
		s.runsAgain(payment("k", as("alice")))
		s.replays(payment("k", as("alice"), func(r *http.Request) { r.Host = "other.example" }))
	})
}
