package idemchi

import (
	"net/http"

	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/policy"
)

// Table returns a middleware that guards the routes of a table, wherever they are
// declared, and passes the others. Mount it with Use, Group, Route or With, inside
// of the authentication. It panics with everything that this engine refuses in
// the table.
//
// A row names the whole pattern, with the prefixes that Route and Mount give it;
// a slash at its end does not count, as chi's own RoutePattern has none. A route
// with a policy of its own, inside of the table, has that policy.
//
// The middleware asks the router which route a request is going to take, which
// costs one more search of its tree. Where middleware inside of the table writes
// another path (middleware.StripSlashes, middleware.PathRewrite), the handler that
// runs is guarded: from its own place on, not from the table's. For that, the
// first request replaces the handlers of the routers below the table. A router
// below a table must not be mounted a second time outside of it.
//
// The table sees through Mount and Route, and not through handlers that are not
// chi's: Audit reports the rows that are lost there. A request that comes by no
// chi router makes it panic.
func (g *Guard) Table(table *policy.Table) func(http.Handler) http.Handler {
	engine := g.mustEngine()
	if table == nil {
		panic("idemchi: Table is given a nil table: give the one that policy.NewTable returned")
	}
	rows := declared.Rows(engine, table, canonical)
	methods := make(map[string]bool)
	for row := range rows {
		methods[row.Method] = true
	}
	guards := func(method string) bool { return methods[method] }
	return (&guarding{guard: g, cover: declared.Cover{Engine: engine, Table: table, Rows: rows}, guards: guards}).around
}
