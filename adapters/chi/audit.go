package idemchi

import (
	"errors"
	"net/http"
	"reflect"
	"slices"

	"github.com/go-chi/chi/v5"

	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/policy"
)

// Audit compares the routes of r with what guards them. Call it when all routes
// are declared, on the outermost router, with the tables that are mounted:
//
//	report := idemchi.Audit(r, idem, table)
//	if err := report.Err(); err != nil { ... }                          // a row that guards nothing
//	for _, warning := range report.Warnings { slog.Warn(warning) }      // a POST that nothing guards
//
// A policy that guards none of its routes is an error too, such as one on PUT with
// the default Methods. Warnings name middleware that belongs outside of the guard
// (cors, compression, method override, time-outs), as far as names tell it.
//
// It sees Policy, Handle, Mount and Table of guards on idem's engine. It does not
// see a guarded handler within another, nor routes below a handler that is not a
// chi router.
func Audit(r chi.Routes, idem *Guard, tables ...*policy.Table) policy.Report {
	if r == nil || slices.Contains(tables, nil) {
		return policy.Report{Errors: []error{errors.New("idemchi: Audit is given a nil router or a nil table: give those that serve")}}
	}
	idem.mustEngine()
	inspection := declared.Inspection{Engine: idem.engine, Tables: tables, Canonical: canonical}
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

// The code of the method values that Policy and Table, and Handle, return: one
// and the same for every value. Functions of others are never called.
var aroundCode, serveCode uintptr

//nolint:gochecknoinits // the functions read them, so that they cannot be their initial values
func init() {
	aroundCode, serveCode = codeOf((*guarding)(nil).around), codeOf((*guarded)(nil).ServeHTTP)
}

func codeOf(function any) uintptr {
	if value := reflect.ValueOf(function); value.Kind() == reflect.Func {
		return value.Pointer()
	}
	return 0
}

// question takes the place of a response writer in Audit's question to a handler
// of ours.
type question struct {
	http.ResponseWriter
	answer *guarding
}

func askMiddleware(middleware func(http.Handler) http.Handler) *guarding {
	return ask(middleware(http.NotFoundHandler())) // which is not called
}

func ask(handler http.Handler) *guarding {
	var asked question
	handler.ServeHTTP(&asked, nil)
	return asked.answer
}
