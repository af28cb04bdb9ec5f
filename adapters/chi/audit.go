package idemchi

import (
	"errors"
	"net/http"
	"reflect"
	"slices"

	"github.com/go-chi/chi/v5"

	"github.com/oncekey/oncekey/adapters/chi/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/policy"
)

// Audit compares the routes of r with their policies and tables. Call it on the
// outermost router after all routes are declared, with the mounted tables:
//
//	report := idemchi.Audit(r, idem, table)
//	if err := report.Err(); err != nil { ... }                          // a row that guards no route
//	for _, warning := range report.Warnings { slog.Warn(warning) }      // a POST without a policy
//
// A policy that guards none of its routes is an error too, such as a policy on PUT
// with the default Methods. Warnings name middleware that belongs outside the guard
// (cors, compression, method override, time-outs), as far as function names show.
//
// Audit sees Policy, Handle, Mount and Table of guards on idem's engine. It does not
// see a guarded handler inside another handler, or routes below a handler that is not
// a chi router.
func Audit(r chi.Routes, idem *Guard, tables ...*policy.Table) policy.Report {
	if r == nil || slices.Contains(tables, nil) {
		return policy.Report{Errors: []error{errors.New("idemchi: Audit is given a nil router or a nil table: give the router and the tables that serve")}}
	}
	idem.mustEngine()
	inspection := declared.Inspection{Engine: idem.engine, Tables: tables, Canonical: routes.Canonical}
	checking.Lock()
	defer checking.Unlock()
	walk(r, func(key declared.Key, endpoint http.Handler, middlewares []func(http.Handler) http.Handler) {
		route := declared.Mounted{Key: key}
		for _, cover := range coversOf(endpoint, middlewares) {
			route.Covers = append(route.Covers, cover.cover)
		}
		if first := slices.IndexFunc(middlewares, isGuard); first >= 0 {
			for _, middleware := range middlewares[first:] {
				route.Inside = append(route.Inside, declared.FunctionOf(middleware))
			}
		}
		inspection.Routes = append(inspection.Routes, route)
	})
	return inspection.Report()
}

// aroundCode is the code of the method values that Policy and Table return, serveCode
// of those that Handle returns. All values of a method share one code, so that Audit
// recognizes and calls only functions of this package.
var aroundCode, serveCode uintptr

//nolint:gochecknoinits // the functions read the variables, so initial values would be a cycle
func init() {
	aroundCode, serveCode = codeOf((*guarding)(nil).around), codeOf((*guarded)(nil).ServeHTTP)
}

func codeOf(function any) uintptr {
	if value := reflect.ValueOf(function); value.Kind() == reflect.Func {
		return value.Pointer()
	}
	return 0
}

// probe takes the place of a response writer when Audit inspects a guarded handler.
type probe struct {
	http.ResponseWriter
	found *guarding
}

func guardingOfMiddleware(middleware func(http.Handler) http.Handler) *guarding {
	return guardingOf(middleware(http.NotFoundHandler())) // the inner handler is not called
}

func guardingOf(handler http.Handler) *guarding {
	var w probe
	handler.ServeHTTP(&w, nil)
	return w.found
}
