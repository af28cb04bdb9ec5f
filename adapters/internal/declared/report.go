package declared

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// Cover is what guards routes: a policy, or a table.
type Cover struct {
	Engine *core.Engine
	Route  *core.Route         // of a policy
	Table  *policy.Table       // or of a table,
	Rows   map[Key]*core.Route // compiled
}

// RouteOf returns the policy that guards requests of this route, or nil.
func (c *Cover) RouteOf(route Key) *core.Route {
	if c.Route != nil && c.Route.Guards(route.Method) {
		return c.Route
	}
	return c.Rows[route]
}

// Mounted is a route that a router has, with the covers on the way to it, and the
// names of the middlewares inside of the first one.
type Mounted struct {
	Key
	Covers []Cover
	Inside []string
}

// Inspection is what Report compares.
type Inspection struct {
	Engine    *core.Engine // covers of other engines do not count
	Routes    []Mounted
	Tables    []*policy.Table
	Canonical func(pattern string) string
	// Partial says that there may be covers which the router does not show.
	Partial bool
}

// Report compares the tables with the routes, and the routes with their covers.
func (i Inspection) Report() policy.Report {
	slices.SortFunc(i.Routes, func(a, b Mounted) int { return strings.Compare(a.Pattern+" "+a.Method, b.Pattern+" "+b.Method) })
	var report policy.Report
	found := make(map[Key]*Mounted)
	effective := i.effective()
	for n := range i.Routes {
		route := &i.Routes[n]
		found[route.Key] = route
		switch {
		case slices.ContainsFunc(route.Covers, func(c Cover) bool { return c.Engine == i.Engine && c.RouteOf(route.Key) != nil }):
			report.Warnings = append(report.Warnings, orderOf(route)...)
		case changes(route.Method):
			report.Warnings = append(report.Warnings, fmt.Sprintf(
				"%s is not guarded: no idempotency policy covers it, so a retry runs its handler again", route.Key))
		default:
			i.passed(&report, route, effective)
		}
	}
	for _, table := range i.Tables {
		for _, row := range table.Declarations() {
			report.Errors = append(report.Errors, i.row(table, &row, found[Key{row.Method, i.Canonical(row.Pattern)}])...)
		}
	}
	return report
}

// effective are the policies that guard a route.
func (i Inspection) effective() map[*core.Route]bool {
	effective := make(map[*core.Route]bool)
	for _, route := range i.Routes {
		for _, cover := range route.Covers {
			if cover.Route != nil && cover.Route.Guards(route.Method) {
				effective[cover.Route] = true
			}
		}
	}
	return effective
}

// passed reports the policies that let all requests of a route pass: it is an error
// where they guard no other route, and worth a look for PUT and DELETE.
func (i Inspection) passed(report *policy.Report, route *Mounted, effective map[*core.Route]bool) {
	for _, cover := range route.Covers {
		switch {
		case cover.Engine != i.Engine || cover.Route == nil:
		case !effective[cover.Route]:
			report.Errors = append(report.Errors, fmt.Errorf("policy: %s: the policy declared at %s does not guard %s, and no other route: add policy.Methods(%q)",
				route.Key, cover.Route.DeclaredAt(), route.Method, route.Method))
		case route.Method == http.MethodPut || route.Method == http.MethodDelete:
			report.Warnings = append(report.Warnings, fmt.Sprintf("%s is not guarded: the policy declared at %s guards other methods: add policy.Methods(%q), or leave it out there",
				route.Key, cover.Route.DeclaredAt(), route.Method))
		}
	}
}

// orderOf warns about middleware that belongs outside of the guard.
func orderOf(route *Mounted) (warnings []string) {
	for _, function := range route.Inside {
		if reason := Misplaced(function); reason != "" {
			warnings = append(warnings, fmt.Sprintf("%s has %s inside of the guard: %s: mount it outside", route.Key, function, reason))
		}
	}
	return warnings
}

// row returns what is wrong with one row of a table.
func (i Inspection) row(table *policy.Table, row *policy.Declaration, route *Mounted) []error {
	switch {
	case route == nil:
		return []error{fmt.Errorf("policy: %s: %s matches no route: spell it as the router has it, prefixes included", row.Source, row.Route())}
	case i.Partial:
		return nil
	case !slices.ContainsFunc(route.Covers, func(c Cover) bool { return c.Engine == i.Engine && c.Table == table }):
		return []error{fmt.Errorf("policy: %s: %s is not guarded by its table: mount the guard's Table where the route is declared", row.Source, row.Route())}
	default:
		return nil
	}
}

// changes reports whether a route's handler is expected to change something every
// time it runs: the methods that a policy guards by default.
func changes(method string) bool { return method == "POST" || method == "PATCH" }
