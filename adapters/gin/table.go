package idemgin

import (
	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// Table returns a middleware that guards the routes of a table, wherever they are
// declared, and passes the others. Mount it by Use on the router or on a group,
// after what authenticates and before the routes: gin gives a route the
// middleware that is there when it is declared. It panics with everything that
// this engine refuses in the table.
//
// A row names the route as gin.Context.FullPath does, with its groups' prefixes:
// "POST /v1/payments/:id".
func (g *Guard) Table(table *policy.Table) gin.HandlerFunc {
	engine := g.mustEngine()
	if table == nil {
		panic("idemgin: Table is given a nil table: give the one that policy.NewTable returned")
	}
	rows := declared.Rows(engine, table, asWritten)
	routeOf := func(c *gin.Context) *core.Route {
		return rows[declared.Key{Method: c.Request.Method, Pattern: c.FullPath()}]
	}
	cover := declared.Cover{Engine: engine, Table: table, Rows: rows}
	return (&guarded{cover, routeOf, (*gin.Context).Next, true}).serve
}

// asWritten is a pattern as gin.Context.FullPath spells it.
func asWritten(pattern string) string { return pattern }
