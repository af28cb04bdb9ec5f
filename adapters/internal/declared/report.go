package declared

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// Cover is a policy or a table around routes.
type Cover struct {
	Engine *core.Engine
	Route  *core.Route         // the compiled policy, or nil
	Table  *policy.Table       // the table, or nil
	Rows   map[Key]*core.Route // the compiled rows of the table
}

// RouteOf returns the policy that guards requests of this route, or nil.
func (c *Cover) RouteOf(route Key) *core.Route {
	if c.Route != nil && c.Route.Guards(route.Method) {
		return c.Route
	}
	return c.Rows[route]
}

// Mounted is a route of a router, with its covers from outside to inside, and the
// names of the middlewares inside the first cover.
type Mounted struct {
	Key
	Covers []Cover
	Inside []string
}

// Inspection is the input of Report.
type Inspection struct {
	Engine    *core.Engine // covers of other engines are ignored
	Routes    []Mounted
	Tables    []*policy.Table
	Canonical func(pattern string) string
	// Partial reports that the router may have covers that are not in Routes.
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

// effective returns the policies that guard at least one route.
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

// passed reports the policies that pass all requests of a route. Such a policy is an
// error if it guards no other route, and a warning for PUT and DELETE.
func (i Inspection) passed(report *policy.Report, route *Mounted, effective map[*core.Route]bool) {
	for _, cover := range route.Covers {
		switch {
		case cover.Engine != i.Engine || cover.Route == nil:
		case !effective[cover.Route]:
			report.Errors = append(report.Errors, fmt.Errorf("policy: %s: the policy declared at %s does not guard %s, and no other route: add policy.Methods(%q)",
				route.Key, cover.Route.DeclaredAt(), route.Method, route.Method))
		case route.Method == http.MethodPut || route.Method == http.MethodDelete:
			report.Warnings = append(report.Warnings, fmt.Sprintf("%s is not guarded: the policy declared at %s guards other methods: add policy.Methods(%q), or leave the policy out there",
				route.Key, cover.Route.DeclaredAt(), route.Method))
		}
	}
}

// orderOf warns about middleware that belongs outside the guard.
func orderOf(route *Mounted) (warnings []string) {
	for _, function := range route.Inside {
		if reason := Misplaced(function); reason != "" {
			warnings = append(warnings, fmt.Sprintf("%s has %s inside the guard: %s: mount the middleware outside", route.Key, function, reason))
		}
	}
	return warnings
}

// row returns the faults of one row of a table.
func (i Inspection) row(table *policy.Table, row *policy.Declaration, route *Mounted) []error {
	switch {
	case row.Method == storage.MethodTool:
		return tool(i.Engine, row)
	case route == nil:
		return []error{fmt.Errorf("policy: %s: %s matches no route: use the router's own spelling, with all prefixes", row.Source, row.Route())}
	case i.Partial:
		return nil
	case !slices.ContainsFunc(route.Covers, func(c Cover) bool { return c.Engine == i.Engine && c.Table == table }):
		return []error{fmt.Errorf("policy: %s: %s is not guarded by its table: mount the guard's Table where the route is declared", row.Source, row.Route())}
	}
	return nil
}

// tool returns the fault of a row that names a tool of an MCP server, which no router has.
func tool(engine *core.Engine, row *policy.Declaration) []error {
	tool := core.Endpoint{Method: row.Method, Pattern: row.Pattern}
	for _, route := range engine.Routes() {
		if slices.Contains(route.Endpoints(), tool) {
			return nil
		}
	}
	return []error{fmt.Errorf("policy: %s: %s is not guarded: give the table to idemmcp.New of adapters/mcp, with this engine", row.Source, row.Route())}
}

// changes reports whether a policy guards the method by default, because each run of
// such a handler is expected to have a side effect.
func changes(method string) bool { return method == "POST" || method == "PATCH" }
