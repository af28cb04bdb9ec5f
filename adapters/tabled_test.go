package adapters_test

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"

	"github.com/oncekey/oncekey/policy"
)

// tabled is a program whose routes are guarded by a table. It declares the routes
// with one handler; of its paths, those in guarded have a row, those in passed
// have none.
type tabled struct {
	rows            []policy.TableRow
	chi             func(r *chi.Mux, table func(http.Handler) http.Handler, handler http.HandlerFunc)
	gin             func(r *gin.Engine, table, handler gin.HandlerFunc)
	guarded, passed []string // "POST /payments"
}

var tabledPrograms = map[string]tabled{
	"chi/Use": {
		rows: []policy.TableRow{policy.Row("POST /payments"), policy.Row("PATCH /members/{id}"), policy.Row("PUT /files/*")},
		chi: func(r *chi.Mux, table func(http.Handler) http.Handler, handler http.HandlerFunc) {
			r.Use(table)
			r.Post("/payments", handler)
			r.HandleFunc("/members/{id}", handler)
			r.Put("/files/*", handler)
			r.Post("/plain", handler)
		},
		guarded: []string{"POST /payments", "PATCH /members/7", "PUT /files/a/b"},
		passed:  []string{"POST /plain", "PUT /members/7", "POST /members/7"},
	},
	"chi/With, Group and an inner With": {
		rows: []policy.TableRow{policy.Row("POST /payments"), policy.Row("POST /grouped/{id}"), policy.Row("POST /files/*"), policy.Row("POST /")},
		chi: func(r *chi.Mux, table func(http.Handler) http.Handler, handler http.HandlerFunc) {
			r.With(table).Post("/payments", handler)
			r.With(table).Post("/files/*", handler)
			r.With(table).Post("/", handler)
			r.Group(func(r chi.Router) {
				r.Use(chimiddleware.NoCache)
				r.With(table).Post("/grouped/{id}", handler)
				r.Post("/plain", handler)
			})
		},
		guarded: []string{"POST /payments", "POST /grouped/7", "POST /files/a", "POST /"},
		passed:  []string{"POST /plain"},
	},
	"chi/routers below the table's": {
		rows: []policy.TableRow{
			policy.Row("POST /v1/payments"), policy.Row("POST /v1/admin/{id}/bans"), policy.Row("POST /v1"), policy.Row("POST /v2/"),
			policy.Row("POST /files/*"), policy.Row("POST /rooted"), policy.Row("POST /of/{tenant}/orders/{id}"),
		},
		chi: func(r *chi.Mux, table func(http.Handler) http.Handler, handler http.HandlerFunc) {
			r.Use(table)
			r.Route("/v1", func(r chi.Router) {
				r.Post("/", handler)
				r.Post("/payments", handler)
				r.Post("/plain", handler)
				r.Route("/admin/{id}", func(r chi.Router) { r.Post("/bans", handler) })
			})
			v2 := chi.NewRouter()
			v2.Post("/", handler)
			r.Mount("/v2", v2)
			files := chi.NewRouter()
			files.Post("/*", handler)
			r.Mount("/files", files)
			r.Route("/of/{tenant}", func(r chi.Router) { r.Post("/orders/{id}", handler) })
			rooted := chi.NewRouter()
			rooted.Post("/rooted", handler)
			r.Mount("/", rooted)
		},
		guarded: []string{
			"POST /v1", "POST /v1/", "POST /v1/payments", "POST /v1/admin/7/bans", "POST /v2", "POST /v2/",
			"POST /files", "POST /files/", "POST /files/a", "POST /rooted", "POST /of/acme/orders/7",
		},
		passed: []string{"POST /v1/plain"},
	},
	"chi/on the router below": {
		rows: []policy.TableRow{policy.Row("POST /v1/payments"), policy.Row("POST /v1"), policy.Row("POST /v1/admin/bans"), policy.Row("POST /v1/admin")},
		chi: func(r *chi.Mux, table func(http.Handler) http.Handler, handler http.HandlerFunc) {
			r.Post("/payments", handler)
			r.Route("/v1", func(r chi.Router) {
				r.Use(table)
				r.Post("/", handler)
				r.Post("/payments", handler)
				r.Route("/admin", func(r chi.Router) {
					r.Post("/", handler)
					r.Post("/bans", handler)
				})
			})
		},
		guarded: []string{"POST /v1", "POST /v1/", "POST /v1/payments", "POST /v1/admin", "POST /v1/admin/bans"},
		passed:  []string{"POST /payments"},
	},
	"chi/two routers below": {
		rows: []policy.TableRow{policy.Row("POST /v1/admin/bans"), policy.Row("POST /v1/admin/deep/{id}"), policy.Row("POST /v1/admin")},
		chi: func(r *chi.Mux, table func(http.Handler) http.Handler, handler http.HandlerFunc) {
			r.Route("/v1", func(r chi.Router) {
				r.Post("/bans", handler)
				r.Route("/admin", func(r chi.Router) {
					r.Use(table)
					r.Post("/", handler)
					r.Post("/bans", handler)
					r.Route("/deep", func(r chi.Router) { r.Post("/{id}", handler) })
				})
			})
		},
		guarded: []string{"POST /v1/admin", "POST /v1/admin/", "POST /v1/admin/bans", "POST /v1/admin/deep/7"},
		passed:  []string{"POST /v1/bans"},
	},
	"chi/paths that middleware cleans": {
		rows: []policy.TableRow{policy.Row("POST /payments"), policy.Row("POST /v1/refunds")},
		chi: func(r *chi.Mux, table func(http.Handler) http.Handler, handler http.HandlerFunc) {
			r.Use(table, chimiddleware.StripSlashes, chimiddleware.CleanPath)
			r.Post("/payments", handler)
			r.Route("/v1", func(r chi.Router) { r.Post("/refunds", handler) })
		},
		guarded: []string{"POST /payments", "POST /payments/", "POST //payments", "POST /v1/refunds/"},
	},
	// Case 62: middleware inside the table writes another path, and both paths
	// have a route.
	"chi/paths that middleware writes": {
		rows: []policy.TableRow{policy.Row("POST /payments"), policy.Row("POST /v1/refunds"), policy.Row("POST /v1/deep/{id}")},
		chi: func(r *chi.Mux, table func(http.Handler) http.Handler, handler http.HandlerFunc) {
			r.Use(table, chimiddleware.PathRewrite("/old", "/payments"), chimiddleware.StripSlashes, chimiddleware.CleanPath)
			r.Use(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/refund" {
						chi.RouteContext(r.Context()).RoutePath = "/v1/refunds"
					}
					next.ServeHTTP(w, r)
				})
			})
			r.Post("/payments", handler)
			r.Post("/{name}/", handler)
			r.Post("/{name}", handler)
			r.Route("/v1", func(r chi.Router) {
				r.Use(chimiddleware.PathRewrite("/nothing", "/"))
				r.With(chimiddleware.NoCache).Post("/refunds", handler)
				r.Route("/deep", func(r chi.Router) { r.Handle("/{id}", handler) })
			})
		},
		guarded: []string{"POST /payments", "POST /payments/", "POST //payments", "POST /old", "POST /refund", "POST /v1/refunds", "POST /v1/refunds/", "POST /v1/deep/7"},
		passed:  []string{"POST /other/", "POST /other", "PUT /v1/deep/7"},
	},
	"chi/around a mount": {
		rows: []policy.TableRow{policy.Row("POST /v1/payments"), policy.Row("POST /v1"), policy.Row("POST /v2/payments")},
		chi: func(r *chi.Mux, table func(http.Handler) http.Handler, handler http.HandlerFunc) {
			below := func(r chi.Router) {
				r.Use(chimiddleware.StripSlashes)
				r.Post("/", handler)
				r.Post("/payments", handler)
				r.Post("/*", handler)
			}
			r.With(table).Route("/v1", below)
			r.Group(func(r chi.Router) {
				r.Use(table)
				r.Route("/v2", below)
			})
		},
		guarded: []string{"POST /v1/payments", "POST /v1/payments/", "POST /v1", "POST /v1/", "POST /v2/payments", "POST /v2/payments/"},
		passed:  []string{"POST /v2", "POST /v2/other"},
	},
	"chi/paths that were cleaned before": {
		rows: []policy.TableRow{policy.Row("POST /payments"), policy.Row("POST /v1/refunds")},
		chi: func(r *chi.Mux, table func(http.Handler) http.Handler, handler http.HandlerFunc) {
			r.Use(chimiddleware.StripSlashes)
			r.With(table).Post("/payments", handler)
			r.Route("/v1", func(r chi.Router) {
				r.Use(table)
				r.Post("/refunds", handler)
			})
		},
		guarded: []string{"POST /payments", "POST /payments/", "POST /v1/refunds", "POST /v1/refunds/"},
	},
	"chi/patterns that overlap": {
		rows: []policy.TableRow{policy.Row("POST /things/{id:[0-9]+}"), policy.Row("POST /a%2Fb/{id}")},
		chi: func(r *chi.Mux, table func(http.Handler) http.Handler, handler http.HandlerFunc) {
			r.Use(table)
			r.Post("/things/{id:[0-9]+}", handler)
			r.Post("/things/{name}", handler)
			r.Post("/things/new", handler)
			r.Post("/a%2Fb/{id}", handler)
		},
		guarded: []string{"POST /things/17", "POST /a%2Fb/7"},
		passed:  []string{"POST /things/abc", "POST /things/new"},
	},
	"gin/Use": {
		rows: []policy.TableRow{policy.Row("POST /payments"), policy.Row("PATCH /members/:id"), policy.Row("PUT /files/*rest")},
		gin: func(r *gin.Engine, table, handler gin.HandlerFunc) {
			r.Use(table)
			r.POST("/payments", handler)
			r.Any("/members/:id", handler)
			r.PUT("/files/*rest", handler)
			r.POST("/plain", handler)
		},
		guarded: []string{"POST /payments", "PATCH /members/7", "PUT /files/a/b"},
		passed:  []string{"POST /plain", "PUT /members/7"},
	},
	"gin/Group and a route's own": {
		rows: []policy.TableRow{policy.Row("POST /payments"), policy.Row("POST /v1/payments"), policy.Row("POST /v1/admin/:id")},
		gin: func(r *gin.Engine, table, handler gin.HandlerFunc) {
			r.POST("/payments", table, handler)
			v1 := r.Group("/v1", table)
			v1.POST("/payments", handler)
			v1.POST("/plain", handler)
			v1.Group("/admin").POST("/:id", handler)
		},
		guarded: []string{"POST /payments", "POST /v1/payments", "POST /v1/admin/7"},
		passed:  []string{"POST /v1/plain"},
	},
	"gin/escaped colon": { // gin removes the escape when it begins to serve
		rows: []policy.TableRow{policy.Row(`POST /payments\:refund`), policy.Row("POST /orders:cancel")},
		gin: func(r *gin.Engine, table, handler gin.HandlerFunc) {
			r.Use(table)
			r.POST(`/payments\:refund`, handler)
			r.POST(`/orders\:cancel`, handler)
			r.POST(`/orders\:list`, handler)
		},
		guarded: []string{"POST /payments:refund", "POST /orders:cancel"},
		passed:  []string{"POST /orders:list"},
	},
}
