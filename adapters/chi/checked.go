package idemchi

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/go-chi/chi/v5"

	"github.com/oncekey/oncekey/adapters/internal/declared"
)

// checked wraps a handler below a table, or below a policy with inner policies. The
// table or policy decides by the path and may pass a request that middleware in
// between rewrites; checked guards such a request by its final path.
type checked struct {
	by   *guarding
	next http.Handler
}

// passedKey marks a request that a table or policy passed by its path.
type passedKey struct{ by *guarding }

func (m *guarding) passed(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), passedKey{m}, true))
}

// ServeHTTP implements http.Handler.
func (h *checked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Context().Value(passedKey{h.by}) != nil {
		routing := chi.RouteContext(r.Context())
		key := declared.Key{Method: methodOf(routing, r), Pattern: canonical(routing.RoutePattern())}
		route := h.by.cover.RouteOf(key)
		if known := h.by.guard.routersOf(routing); route != nil && !known.guardsInside(h.by, key) {
			r.Pattern = key.Pattern
			h.by.cover.Engine.Serve(w, r, route, h.next)
			return
		}
	}
	h.next.ServeHTTP(w, r)
}

// checking is locked while handlers are replaced or all handlers are read.
var checking sync.Mutex

// checkOnce wraps each handler of the routers below m in a checked. Each request to
// these routers passes m first and waits until checkOnce is done.
func (m *guarding) checkOnce(root chi.Routes) {
	once, done := m.checked.Load(root)
	if !done {
		once, _ = m.checked.LoadOrStore(root, new(sync.Once))
	}
	once.(*sync.Once).Do(func() { //nolint:forcetypeassert // the map holds only this type
		checking.Lock()
		defer checking.Unlock()
		m.checkIn(root, false)
	})
}

func (m *guarding) checkIn(routes chi.Routes, below bool) {
	below = below || m.isIn(routes.Middlewares())
	mux, _ := routes.(*chi.Mux)
	for _, route := range routes.Routes() {
		if route.SubRoutes != nil {
			chain, _ := route.Handlers["*"].(*chi.ChainHandler)
			m.checkIn(route.SubRoutes, below || chain != nil && m.isIn(chain.Middlewares))
			continue
		}
		for method, handler := range route.Handlers {
			if below && mux != nil && method != "*" && !isCheckedBy(handler, m) {
				mux.Method(method, route.Pattern, &checked{m, handler})
			}
		}
	}
}

func (m *guarding) isIn(middlewares chi.Middlewares) bool {
	return slices.ContainsFunc(middlewares, func(middleware func(http.Handler) http.Handler) bool {
		return isGuard(middleware) && guardingOfMiddleware(middleware) == m
	})
}

func isCheckedBy(handler http.Handler, m *guarding) bool {
	for {
		found, isChecked := handler.(*checked)
		if !isChecked || found.by == m {
			return isChecked
		}
		handler = found.next
	}
}
