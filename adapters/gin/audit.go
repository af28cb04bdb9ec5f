package idemgin

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/adapters/gin/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/policy"
)

// Audit compares the routes of a router with their policies and tables. Call it after
// all routes are declared, with the mounted tables:
//
//	report := idemgin.Audit(router, idem, table)
//	if err := report.Err(); err != nil { ... }                          // a row that guards no route
//	for _, warning := range report.Warnings { slog.Warn(warning) }      // a POST without a policy
//
// A policy that guards none of its routes is an error too, such as a policy on PUT
// with the default Methods, a policy inside a time-out package's middleware, or a policy
// after the handler.
// A warning says that ContextWithFallback of the router is false: a handler's *gin.Context
// then does not end with its run.
//
// Warnings name middleware that belongs outside the guard (cors, compression, method
// override, time-outs), as far as function names show.
//
// Audit sees Policy, Handle, Mount and Table of guards on idem's engine. If another
// function calls a guard, Audit lists the route as not guarded.
//
// gin has no API for the middleware of a route, so Audit reads the router's unexported
// tree. If a version of gin has an unknown tree, a warning reports this, and Audit sees
// only the router's own middleware and the last handler of each route.
func Audit(router *gin.Engine, idem *Guard, tables ...*policy.Table) policy.Report {
	if router == nil || slices.Contains(tables, nil) {
		return policy.Report{Errors: []error{errors.New("idemgin: Audit is given a nil router or a nil table: give the router and the tables that serve")}}
	}
	idem.mustEngine()
	chains, whole := routes.Chains(router)
	report := audit(chains, whole, idem, tables)
	if !router.ContextWithFallback {
		report.Warnings = append(report.Warnings, noFallback)
	}
	return report
}

func audit(chains []routes.Chain, whole bool, idem *Guard, tables []*policy.Table) policy.Report {
	var refused policy.Report
	inspection := declared.Inspection{Engine: idem.engine, Tables: tables, Canonical: asFullPath, Partial: !whole}
	for _, chain := range chains {
		route := declared.Mounted{Key: declared.Key{Method: chain.Method, Pattern: asFullPath(chain.Pattern)}}
		var limits []string // middleware before a guard that may use another goroutine
		for i, handler := range chain.Handlers {
			name := declared.FunctionOf(handler)
			switch {
			case codeOf(handler) == serveCode:
				cover := guardedOf(handler)
				if i == len(chain.Handlers)-1 && cover.isMisplaced(&refused, route.Key) {
					continue
				}
				route.Covers = append(route.Covers, cover.cover)
				limited(&refused, limits, cover, route.Key)
			case len(route.Covers) > 0 && i < len(chain.Handlers)-1:
				route.Inside = append(route.Inside, name)
			case isTimeout(path.Base(name)):
				limits = append(limits, name)
			}
		}
		inspection.Routes = append(inspection.Routes, route)
	}
	report := inspection.Report()
	report.Errors = append(report.Errors, refused.Errors...)
	report.Warnings = append(report.Warnings, refused.Warnings...)
	if !whole {
		report.Warnings = append(report.Warnings, "this version of gin is unknown: Audit does not see middleware of groups and routes, and lists routes guarded there as not guarded")
	}
	return report
}

// isMisplaced reports a policy or a table that is the last handler of a route.
func (h *guarded) isMisplaced(report *policy.Report, key declared.Key) bool {
	route := h.cover.RouteOf(key)
	if !h.isMiddleware || route == nil {
		return false
	}
	report.Errors = append(report.Errors, fmt.Errorf("policy: %s: gin calls no handler behind the policy declared at %s: "+
		"put the policy before the handler, or use Handle", key, route.DeclaredAt()))
	return true
}

// limited reports a policy or a table behind middleware that runs the handlers on
// another goroutine. A function of a time-out package is an error, any other function
// with such a name a warning.
func limited(report *policy.Report, limits []string, cover *guarded, route declared.Key) {
	if !cover.isMiddleware || cover.cover.RouteOf(route) == nil {
		return
	}
	for _, name := range limits {
		text := fmt.Sprintf("%s has %s outside its policy: middleware that runs the handlers on another goroutine, as gin-contrib/timeout does, "+
			"makes the policy refuse every request: limit the handler with policy.MaxRun, or put http.TimeoutHandler around the gin engine", route, name)
		if pkg, _, _ := strings.Cut(path.Base(name), "."); isTimeout(pkg) {
			report.Errors = append(report.Errors, errors.New("policy: "+text))
		} else {
			report.Warnings = append(report.Warnings, text)
		}
	}
}

func isTimeout(name string) bool { return strings.Contains(strings.ToLower(name), "timeout") }

// serveCode is the code of the method values that Policy, Handle and Table return. All
// values share one code, so that Audit recognizes and calls only functions of this
// package.
var serveCode uintptr

//nolint:gochecknoinits // serve itself reads the variable, so an initial value would be a cycle
func init() { serveCode = codeOf((*guarded)(nil).serve) }

func codeOf(handler gin.HandlerFunc) uintptr { return reflect.ValueOf(handler).Pointer() }

const guardedKey = "oncekey.guarded"

func guardedOf(handler gin.HandlerFunc) *guarded {
	var probe gin.Context
	handler(&probe)
	found, _ := probe.MustGet(guardedKey).(*guarded)
	return found
}
