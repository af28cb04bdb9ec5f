package adapters_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/policy"
)

func corsForChi(next http.Handler) http.Handler           { return next }
func methodOverrideForChi(next http.Handler) http.Handler { return next }

func corsForGin(*gin.Context)           {}
func gzipForGin(*gin.Context)           {}
func methodOverrideForGin(*gin.Context) {}
func timeoutForGin(*gin.Context)        {}

// counted returns the lines that contain each of the words.
func counted(t *testing.T, lines []string, want ...string) {
	t.Helper()
	if len(lines) != len(want) {
		t.Errorf("got %d lines, want %d:\n%s", len(lines), len(want), strings.Join(lines, "\n"))
	}
	for _, words := range want {
		if !slices.ContainsFunc(lines, func(line string) bool {
			for word := range strings.FieldsSeq(words) {
				if !strings.Contains(line, word) {
					return false
				}
			}
			return true
		}) {
			t.Errorf("no line has the words %q:\n%s", words, strings.Join(lines, "\n"))
		}
	}
}

// Case 73: Audit warns about middleware that belongs outside the guard.
func TestAuditOfTheOrder(t *testing.T) {
	t.Parallel()
	e := engineFor(t)
	r, guard := chi.NewRouter(), idemchi.New(e)
	r.Use(corsForChi, chimiddleware.Timeout(time.Second))
	r.With(guard.Policy(), chimiddleware.Timeout(time.Second), chimiddleware.NoCache).Post("/right", created)
	r.With(guard.Policy(), corsForChi, chimiddleware.Compress(5), methodOverrideForChi).Post("/wrong", created)
	report := idemchi.Audit(r, guard)
	counted(t, report.Warnings, "/wrong corsForChi", "/wrong Compress", "/wrong methodOverrideForChi")

	router, ginGuard, h := gin.New(), idemgin.New(e), gin.WrapF(created)
	router.ContextWithFallback = true
	router.Use(corsForGin, gzipForGin)
	router.POST("/right", ginGuard.Policy(), gin.Logger(), h)
	router.POST("/handle", timeoutForGin, ginGuard.Handle(h))
	router.POST("/wrong", ginGuard.Policy(), corsForGin, gzipForGin, methodOverrideForGin, timeoutForGin, h)
	router.POST("/limited", timeoutForGin, ginGuard.Policy(), h)
	report2 := idemgin.Audit(router, ginGuard)
	counted(t, report2.Warnings, "/wrong corsForGin", "/wrong gzipForGin", "/wrong methodOverrideForGin", "/wrong timeoutForGin policy.MaxRun",
		"/limited timeoutForGin outside policy.MaxRun http.TimeoutHandler")
	if report.Err() != nil || report2.Err() != nil {
		t.Errorf("errors are %v and %v", report.Err(), report2.Err())
	}
}

// Case 63: a policy on a method that it does not guard is an error if it guards no other
// route, and otherwise a warning.
func TestAuditOfMethods(t *testing.T) {
	t.Parallel()
	e := engineFor(t)
	r, guard := chi.NewRouter(), idemchi.New(e)
	r.With(guard.Policy()).Put("/with", created)
	r.Delete("/handle", guard.Handle(created))
	r.With(guard.Policy()).Get("/get", created)
	r.With(guard.Policy(policy.Methods("PUT"))).Put("/right", created)
	r.Group(func(r chi.Router) {
		r.Use(guard.Policy())
		r.Post("/group", created)
		r.Put("/group", created)
		r.Get("/group", created)
	})
	chiReport := idemchi.Audit(r, guard)

	router, ginGuard, h := gin.New(), idemgin.New(e), gin.WrapF(created)
	router.ContextWithFallback = true
	router.PUT("/with", ginGuard.Policy(), h)
	router.DELETE("/handle", ginGuard.Handle(h))
	router.GET("/get", ginGuard.Policy(), h)
	router.PUT("/right", ginGuard.Policy(policy.Methods("PUT")), h)
	group := router.Group("/group", ginGuard.Policy())
	group.POST("", h)
	group.PUT("", h)
	group.GET("", h)
	ginReport := idemgin.Audit(router, ginGuard)

	for name, report := range map[string]policy.Report{"chi": chiReport, "gin": ginReport} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counted(t, strings.Split(fmt.Sprint(report.Err()), "\n"), "PUT /with audit_order_test.go: policy.Methods(\"PUT\")", "DELETE /handle", "GET /get")
			counted(t, report.Warnings, "PUT /group audit_order_test.go: policy.Methods(\"PUT\")")
		})
	}
}
