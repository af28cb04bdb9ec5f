package stepmatrix

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// reply is a response, or the error of a call, as the tables show it.
type reply string

const (
	created     reply = "201"
	inProgress  reply = problem.InProgress
	reused      reply = problem.KeyReused
	unknown     reply = "409 unknown"
	unavailable reply = problem.StoreUnavailable
)

// router mounts a handler, and returns a function that sends a payload under the key.
type router func(engine *core.Engine, key string, handle func(context.Context) error, opts []policy.Option) func(payload string) reply

const doName = "core.Do"

var routers = map[string]router{
	"net/http": func(engine *core.Engine, key string, handle func(context.Context) error, opts []policy.Option) func(string) reply {
		return sender(engine.Handler(handler(handle), opts...), key)
	},
	"chi": func(engine *core.Engine, key string, handle func(context.Context) error, opts []policy.Option) func(string) reply {
		mux := chi.NewRouter()
		mux.With(idemchi.New(engine).Policy(opts...)).Post("/orders", handler(handle))
		return sender(mux, key)
	},
	"gin": func(engine *core.Engine, key string, handle func(context.Context) error, opts []policy.Option) func(string) reply {
		gin.SetMode(gin.ReleaseMode)
		mux := gin.New()
		mux.ContextWithFallback = true
		mux.POST("/orders", idemgin.New(engine).Handle(func(c *gin.Context) {
			if err := handle(c.Request.Context()); err != nil {
				c.Status(http.StatusServiceUnavailable)
				return
			}
			c.Status(http.StatusCreated)
		}, opts...))
		return sender(mux, key)
	},
	doName: caller,
}

func handler(handle func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := handle(r.Context()); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}
}

func sender(h http.Handler, key string) func(string) reply {
	return func(payload string) reply {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/orders", strings.NewReader(payload))
		r.Header.Set(core.KeyHeader, `"`+key+`"`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		for code, shown := range map[string]reply{problem.InProgress: inProgress, problem.KeyReused: reused, problem.OutcomeUnknown: unknown, problem.StoreUnavailable: unavailable} {
			if strings.Contains(w.Body.String(), `"code":"`+code+`"`) {
				return shown
			}
		}
		if w.Code == http.StatusCreated {
			return created
		}
		return reply(w.Result().Status + " " + w.Body.String())
	}
}

func caller(engine *core.Engine, key string, handle func(context.Context) error, opts []policy.Option) func(string) reply {
	route := engine.MustRoute(opts...)
	return func(payload string) reply {
		call := core.Call{Scope: "orders", Name: "order", Key: key, Input: payload, Route: route}
		_, _, err := core.Do(context.Background(), engine, call, func(ctx context.Context) (int, error) { return 0, handle(ctx) })
		switch {
		case err == nil:
			return created
		case errors.Is(err, core.ErrInProgress):
			return inProgress
		case errors.Is(err, core.ErrKeyReused):
			return reused
		case errors.Is(err, core.ErrOutcomeUnknown):
			return unknown
		case errors.Is(err, core.ErrUnavailable):
			return unavailable
		default:
			return reply(err.Error())
		}
	}
}
