package idemgin

import (
	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/adapters/gin/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// Table returns a middleware that guards the routes of a table and passes all other
// routes. Mount it by Use on the router or on a group, after the authentication and
// before the routes: gin gives a route only the middleware that was mounted earlier.
// Table panics with every fault that the engine finds in the table.
//
// A row names the route like gin.Context.FullPath, with the prefixes of its groups:
// "POST /v1/payments/:id". A row without a route in this router guards the paths that
// match it, where a NoRoute handler or a route such as "/v1/*path" leads to another router.
// A request with the method of another route, because middleware outside the table has
// written its method, is refused with 500 wrong_setup.
func (g *Guard) Table(table *policy.Table) gin.HandlerFunc {
	engine := g.mustEngine()
	if table == nil {
		panic("idemgin: Table is given a nil table: give the table from policy.NewTable")
	}
	rows := g.tables.Rows(engine, declared.Place(), table, asWritten)
	var known routes.Rows
	for row := range rows {
		known.Add(row.Method, row.Pattern)
	}
	routeOf := func(c *gin.Context) *core.Route {
		method, pattern := known.Of(c)
		return rows[declared.Key{Method: method, Pattern: pattern}]
	}
	cover := declared.Cover{Engine: engine, Table: table, Rows: rows}
	return (&guarded{guard: g, cover: cover, routeOf: routeOf, handler: (*gin.Context).Next, isMiddleware: true}).serve
}

// asWritten spells a pattern like gin.Context.FullPath.
func asWritten(pattern string) string { return pattern }
