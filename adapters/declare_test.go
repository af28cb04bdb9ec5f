package adapters_test

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// A declaration refuses an invalid policy with the policy's error.
func TestDeclarationsThatAreWrong(t *testing.T) {
	t.Parallel()
	engine := engineFor(t)
	testkit.Each(t, map[string]func(...policy.Option){
		"core.Handler":   func(opts ...policy.Option) { engine.Handler(http.HandlerFunc(created), opts...) },
		"idemchi.Policy": func(opts ...policy.Option) { idemchi.New(engine).Policy(opts...) },
		"idemchi.Handle": func(opts ...policy.Option) { idemchi.New(engine).Handle(created, opts...) },
		"idemgin.Policy": func(opts ...policy.Option) { idemgin.New(engine).Policy(opts...) },
		"idemgin.Handle": func(opts ...policy.Option) { idemgin.New(engine).Handle(gin.WrapF(created), opts...) },
	}, func(t *testing.T, declare func(...policy.Option)) {
		for want, opts := range map[string][]policy.Option{
			"LockTTL is 2h0m0s: it must be at most TTL, which is 1h0m0s": {policy.TTLHours(1), policy.LockTTL(2 * time.Hour)},
			"TTL is 0s":                   {policy.TTL(0)},
			"MaxRun is -1s":               {policy.MaxRun(-time.Second)},
			`Methods is "post"`:           {policy.Methods("post")},
			`ExcludeFields is ""`:         {policy.ExcludeFields("")},
			`cannot exclude "a..b"`:       {policy.ExcludeFields("a..b")},
			`KeepHeaders is "Connection"`: {policy.KeepHeaders("Connection")},
		} {
			if said := panicOf(func() { declare(opts...) }); !strings.Contains(said, want) {
				t.Errorf("panicked with %q, want %q", said, want)
			}
		}
		testkit.Equal(t, panicOf(func() { declare(policy.TTLHours(48)) }), "", "a good policy panicked with")
	})
}

// A policy is declared at the line that calls the adapter, and not inside the adapter.
func TestPlacesOfDeclarations(t *testing.T) {
	t.Parallel()
	engine := engineFor(t)
	onChi, onGin := idemchi.New(engine), idemgin.New(engine)
	table := tableOf(t, policy.Row("POST /payments"))
	router := gin.New()
	handler := gin.WrapF(created)
	_, _, line, _ := runtime.Caller(0)
	onChi.Policy()
	onChi.Handle(created)
	onChi.Table(table)
	errs := []error{idemchi.Mount(chi.NewRouter(), onChi, &struct {
		Pay http.HandlerFunc `route:"POST /payments" idempotency:""`
	}{created})}
	onGin.Policy()
	onGin.Handle(handler)
	onGin.Table(table)
	errs = append(errs, idemgin.Mount(router, onGin, &struct {
		Pay gin.HandlerFunc `route:"POST /payments" idempotency:""`
	}{handler}))
	testkit.Must(t, errors.Join(errs...))
	routes := engine.Routes()
	for i, below := range []int{1, 2, 3, 4, 7, 8, 9, 10} {
		want := fmt.Sprintf("adapters/declare_test.go:%d", line+below)
		testkit.Equal(t, routes[i].DeclaredAt(), want, "route %d is declared at", i)
		testkit.Equal(t, len(routes[i].Endpoints()), i%4/2, "endpoints of route %d before its first request", i)
	}
}

// Case 65: every function refuses a nil argument by its name.
func TestNilArguments(t *testing.T) {
	t.Parallel()
	engine := engineFor(t)
	forChi, forGin := idemchi.New(engine), idemgin.New(engine)
	var noChi *idemchi.Guard
	var noGin *idemgin.Guard
	type API struct {
		Pay http.HandlerFunc `route:"POST /payments" idempotency:""`
	}
	type GinAPI struct {
		Pay gin.HandlerFunc `route:"POST /payments" idempotency:""`
	}
	failing := func(err error) { panic(err) }
	for _, row := range []struct {
		want    string
		declare func()
	}{
		{"oncekey: Handler is given a nil http.Handler", func() { engine.Handler(nil) }},
		{"idemchi: New is given a nil engine", func() { idemchi.New(nil) }},
		{"idemchi: the guard is nil", func() { noChi.Policy() }},
		{"idemchi: the guard is nil", func() { noChi.Handle(created) }},
		{"idemchi: the guard is nil", func() { noChi.Table(tableOf(t, policy.Row("POST /a"))) }},
		{"idemchi: the guard is nil", func() { idemchi.Audit(chi.NewRouter(), nil) }},
		{"idemchi: Handle is given a nil handler", func() { forChi.Handle(nil) }},
		{"idemchi: Table is given a nil table", func() { forChi.Table(nil) }},
		{"idemchi: the middleware is given a nil handler", func() { forChi.Policy()(nil) }},
		{"idemchi: the middleware is given a nil handler", func() { forChi.Policy()(http.HandlerFunc(nil)) }},
		{"idemchi: Mount is given a nil router or a nil guard", func() { failing(idemchi.Mount(nil, forChi, API{created})) }},
		{"idemchi: Mount is given a nil router or a nil guard", func() { failing(idemchi.Mount(chi.NewRouter(), nil, API{created})) }},
		{"POST /payments", func() { failing(idemchi.Mount(chi.NewRouter(), forChi, API{})) }},
		{"idemchi: Audit is given a nil router", func() { report := idemchi.Audit(nil, forChi); failing(report.Err()) }},
		{"nil table", func() { report := idemchi.Audit(chi.NewRouter(), forChi, nil); failing(report.Err()) }},
		{"idemgin: New is given a nil engine", func() { idemgin.New(nil) }},
		{"idemgin: the guard is nil", func() { noGin.Policy() }},
		{"idemgin: the guard is nil", func() { noGin.Handle(gin.WrapF(created)) }},
		{"idemgin: the guard is nil", func() { noGin.Table(tableOf(t, policy.Row("POST /a"))) }},
		{"idemgin: the guard is nil", func() { idemgin.Audit(gin.New(), nil) }},
		{"idemgin: Handle is given a nil handler", func() { forGin.Handle(nil) }},
		{"idemgin: Table is given a nil table", func() { forGin.Table(nil) }},
		{"idemgin: Mount is given a nil router or a nil guard", func() { failing(idemgin.Mount(nil, forGin, GinAPI{gin.WrapF(created)})) }},
		{"idemgin: Mount is given a nil router or a nil guard", func() { failing(idemgin.Mount(gin.New(), nil, GinAPI{gin.WrapF(created)})) }},
		{"POST /payments", func() { failing(idemgin.Mount(gin.New(), forGin, GinAPI{})) }},
		{"idemgin: Audit is given a nil router", func() { report := idemgin.Audit(nil, forGin); failing(report.Err()) }},
		{"nil table", func() { report := idemgin.Audit(gin.New(), forGin, nil); failing(report.Err()) }},
	} {
		if said := panicOf(row.declare); !strings.Contains(said, row.want) || strings.Contains(said, "nil pointer") {
			t.Errorf("said %q, want %q", said, row.want)
		}
	}
}

func panicOf(do func()) (said string) {
	defer func() {
		if value := recover(); value != nil {
			said = fmt.Sprint(value)
		}
	}()
	do()
	return ""
}

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
	r.With(corsForChi, chimiddleware.Timeout(time.Second), guard.Policy(), chimiddleware.Timeout(time.Minute), chimiddleware.NoCache).Post("/right", created)
	signIn := chimiddleware.BasicAuth("shop", nil)
	r.With(guard.Policy(), signIn, corsForChi, chimiddleware.Compress(5), methodOverrideForChi).Post("/wrong", created)
	r.With(signIn, guard.Policy()).Post("/signed-in", created)
	report := idemchi.Audit(r, guard)
	counted(t, report.Warnings, "/wrong replay comes before", "/wrong corsForChi", "/wrong Compress Accept-Encoding", "/wrong methodOverrideForChi")

	router, ginGuard, h := gin.New(), idemgin.New(e), gin.WrapF(created)
	router.ContextWithFallback = true
	router.Use(corsForGin, gzipForGin)
	router.POST("/right", ginGuard.Policy(), gin.Logger(), h)
	router.POST("/handle", timeoutForGin, ginGuard.Handle(h))
	router.POST("/wrong", ginGuard.Policy(), gin.BasicAuth(gin.Accounts{"alice": "pw"}), corsForGin, gzipForGin, methodOverrideForGin, timeoutForGin, h)
	router.POST("/limited", timeoutForGin, ginGuard.Policy(), h)
	report2 := idemgin.Audit(router, ginGuard)
	counted(t, report2.Warnings, "/wrong BasicAuth replay comes before", "/wrong corsForGin", "/wrong gzipForGin Accept-Encoding", "/wrong methodOverrideForGin", "/wrong timeoutForGin policy.MaxRun",
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

	testkit.Each(t, map[string]policy.Report{"chi": chiReport, "gin": ginReport}, func(t *testing.T, report policy.Report) {
		counted(t, strings.Split(fmt.Sprint(report.Err()), "\n"), "PUT /with declare_test.go: policy.Methods(\"PUT\")", "DELETE /handle", "GET /get")
		counted(t, report.Warnings, "PUT /group declare_test.go: policy.Methods(\"PUT\")")
	})
}
