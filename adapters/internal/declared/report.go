package declared

import (
	"fmt"
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

// covers reports whether requests of this route are guarded.
func (c *Cover) covers(route Key) bool {
	return c.Route != nil && c.Route.Guards(route.Method) || c.Rows[route] != nil
}

// Mounted is a route that a router has, with the covers on the way to it.
type Mounted struct {
	Key
	Covers []Cover
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
	for n := range i.Routes {
		route := &i.Routes[n]
		found[route.Key] = route
		if changes(route.Method) && !slices.ContainsFunc(route.Covers, func(c Cover) bool { return c.Engine == i.Engine && c.covers(route.Key) }) {
			report.Warnings = append(report.Warnings, fmt.Sprintf(
				"%s is not guarded: no idempotency policy covers it, so a retry runs its handler again", route.Key))
		}
	}
	for _, table := range i.Tables {
		for _, row := range table.Declarations() {
			report.Errors = append(report.Errors, i.row(table, &row, found[Key{row.Method, i.Canonical(row.Pattern)}])...)
		}
	}
	return report
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
