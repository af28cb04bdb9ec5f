package idemchi

import (
	"net/http"

	"github.com/oncekey/oncekey/adapters/chi/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/policy"
)

// Table returns a middleware that guards the routes of a table and passes all other
// routes. Mount it with Use, Group, Route or With, inside the authentication. Table
// panics with every fault that the engine finds in the table.
//
// A row names the whole pattern, with the prefixes from Route and Mount. A slash at
// the end does not count, because chi's RoutePattern has none. A route with its own
// policy inside the table keeps its own policy.
//
// The middleware searches the router's tree for the route of each request, which
// costs one more search. If middleware inside the table rewrites the path
// (middleware.StripSlashes, middleware.PathRewrite), the guard starts at the handler
// and not at the table. For this the first request replaces the handlers of the
// routers below the table. A router that is mounted outside of the table too keeps its
// handlers, and is guarded for paths that are not rewritten. Two outermost routers must
// not share a router below a table. Middleware outside of the table must not search the
// routes (middleware.GetHead, chi.Routes.Match) beside the first request: mount it inside.
//
// The table sees routes through Mount and Route, but not below handlers that are not
// chi routers. A row for such a route guards the paths that match it, and Audit reports
// the row. A row's route that runs without a guard, such as one below a handler that
// rewrites the path, is an event event.WrongSetup. The middleware panics for a request
// that no chi router serves.
func (g *Guard) Table(table *policy.Table) func(http.Handler) http.Handler {
	engine := g.mustEngine()
	if table == nil {
		panic("idemchi: Table is given a nil table: give the table from policy.NewTable")
	}
	rows := g.tables.Rows(engine, declared.Place(), table, routes.Canonical)
	methods := make(map[string]bool)
	for row := range rows {
		methods[row.Method] = true
	}
	guards := func(method string) bool { return methods[method] }
	return (&guarding{guard: g, cover: declared.Cover{Engine: engine, Table: table, Rows: rows}, guards: guards}).around
}
