package idemgin

import (
	"reflect"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/adapters/gin/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/policy"
)

// Audit compares the routes of a router with what guards them. Call it when all
// routes are declared, with the tables that are mounted:
//
//	report := idemgin.Audit(router, idem, table)
//	if err := report.Err(); err != nil { ... }                          // a row that guards nothing
//	for _, warning := range report.Warnings { slog.Warn(warning) }      // a POST that nothing guards
//
// It sees Policy, Handle, Mount and Table of guards on idem's engine, and not a
// guarded handler that another function calls.
//
// gin tells nobody which middleware a route has: Audit reads it from the router's
// unexported tree. If a version of gin has another tree than this package was
// tested with, a warning says so, and Audit knows no more than the router's own
// middleware and the last handler of each route.
func Audit(router *gin.Engine, idem *Guard, tables ...*policy.Table) policy.Report {
	chains, whole := routes.Chains(router)
	return audit(chains, whole, idem, tables)
}

func audit(chains []routes.Chain, whole bool, idem *Guard, tables []*policy.Table) policy.Report {
	inspection := declared.Inspection{Engine: idem.engine, Tables: tables, Canonical: asWritten, Partial: !whole}
	for _, chain := range chains {
		route := declared.Mounted{Key: declared.Key{Method: chain.Method, Pattern: chain.Pattern}}
		for _, handler := range chain.Handlers {
			if codeOf(handler) == serveCode {
				route.Covers = append(route.Covers, ask(handler))
			}
		}
		inspection.Routes = append(inspection.Routes, route)
	}
	report := inspection.Report()
	if !whole {
		report.Warnings = append(report.Warnings, "this version of gin is unknown: middleware of groups and routes is not seen, and what it guards is listed as not guarded")
	}
	return report
}

// serveCode is the code of the method values that Policy, Handle and Table return:
// one and the same for every value. Functions of others are never called.
var serveCode = codeOf((*guarded)(nil).serve)

func codeOf(handler gin.HandlerFunc) uintptr { return reflect.ValueOf(handler).Pointer() }

const coverKey = "oncekey.cover"

func ask(handler gin.HandlerFunc) declared.Cover {
	var asked gin.Context
	handler(&asked)
	cover, _ := asked.MustGet(coverKey).(declared.Cover)
	return cover
}
