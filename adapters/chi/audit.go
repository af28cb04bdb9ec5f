package idemchi

import (
	"net/http"
	"reflect"

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
// It sees Policy, Handle, Mount and Table of guards on idem's engine. It does not
// see a guarded handler within another, nor routes below a handler that is not a
// chi router.
func Audit(r chi.Routes, idem *Guard, tables ...*policy.Table) policy.Report {
	inspection := declared.Inspection{Engine: idem.engine, Tables: tables, Canonical: canonical}
	_ = chi.Walk(r, func(method, pattern string, endpoint http.Handler, middlewares ...func(http.Handler) http.Handler) error {
		route := declared.Mounted{Key: declared.Key{Method: method, Pattern: canonical(pattern)}}
		for _, middleware := range middlewares {
			if codeOf(middleware) == aroundCode {
				route.Covers = append(route.Covers, ask(middleware(nil)))
			}
		}
		if codeOf(endpoint) == serveCode {
			route.Covers = append(route.Covers, ask(endpoint))
		}
		inspection.Routes = append(inspection.Routes, route)
		return nil
	}) // it returns what the function does
	return inspection.Report()
}

// The code of the method values that Policy and Table, and Handle, return: one
// and the same for every value. Functions of others are never called.
var (
	aroundCode = codeOf((*guarding)(nil).around)
	serveCode  = codeOf((*guarded)(nil).ServeHTTP)
)

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

func ask(handler http.Handler) declared.Cover {
	var asked question
	handler.ServeHTTP(&asked, nil)
	return asked.answer.cover
}
