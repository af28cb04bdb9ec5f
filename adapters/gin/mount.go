package idemgin

import (
	"errors"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/adapters/gin/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// Mount declares the routes of an annotated struct on a router or a group, guarded by
// the policies in the tags. The fields have the type gin.HandlerFunc.
// policy.Annotations describes the tags; patterns are gin's ("PATCH /members/:id").
// policy.Also adds options that a tag cannot hold.
//
// If there is any fault, Mount declares no route and returns all faults, joined by
// errors.Join, each with its field and tag: the faults from Annotations, a policy that
// the engine refuses, a pattern that gin refuses alone or beside existing routes. Mount
// first declares all routes on a trial router. It sets gin's mode to release meanwhile,
// so that gin in debug mode does not print the routes twice.
func Mount(r gin.IRouter, idem *Guard, api any, also ...policy.Addition) error {
	if r == nil || idem == nil {
		return errors.New("idemgin: Mount is given a nil router or a nil guard: give both")
	}
	prefix := "/"
	if group, isGroup := r.(interface{ BasePath() string }); isGroup {
		prefix = group.BasePath()
	}
	whole := func(pattern string) string { return asFullPath(routes.Join(prefix, pattern)) }
	fields, err := declared.Fields[gin.HandlerFunc](idem.engine, declared.Place(), api, also, whole)
	if err := errors.Join(err, try(r, prefix, fields)); err != nil {
		return err
	}
	var all []error
	for _, field := range fields {
		handler := field.Handler
		if field.Route != nil {
			handler = idem.guarded(handler, field.Route).serve
		}
		all = append(all, declared.Try(&field.Declaration, func() { r.Handle(field.Method, field.Pattern, handler) }))
	}
	return errors.Join(all...) // try cannot see the routes of a router that is not gin's
}

var modeLock sync.Mutex // held while gin's mode is release for a trial

// try declares the routes on a trial router that already has the routes of r.
func try(r gin.IRouter, prefix string, fields []declared.Field[gin.HandlerFunc]) error {
	modeLock.Lock()
	defer modeLock.Unlock()
	defer gin.SetMode(gin.Mode())
	gin.SetMode(gin.ReleaseMode)
	trial := gin.New()
	if engine := routes.EngineOf(r); engine != nil {
		for _, route := range engine.Routes() {
			_ = declared.Try(new(policy.Declaration), func() { trial.Handle(route.Method, route.Path, route.HandlerFunc) }) // r has accepted the route
		}
	}
	var all []error
	for i := range fields {
		field := &fields[i]
		all = append(all, declared.Try(&field.Declaration, func() { trial.Group(prefix).Handle(field.Method, field.Pattern, field.Handler) }))
	}
	return errors.Join(all...)
}

// Table returns a middleware that guards the routes of a table and passes all other
// routes. Mount it by Use on the router or on a group, after the authentication and
// before the routes: gin gives a route only the middleware that was mounted earlier.
// Table panics with every fault that the engine finds in the table.
//
// A row names the route like gin.Context.FullPath, with the prefixes of its groups:
// "POST /v1/payments/:id". An escaped colon may keep its escape. A row without a route in
// this router guards the paths that match it, where a NoRoute handler or a route such as
// "/v1/*path" leads to another router. A request with the method of another route, because
// middleware outside the table has written its method, is refused with 500 wrong_setup.
func (g *Guard) Table(table *policy.Table) gin.HandlerFunc {
	engine := g.mustEngine()
	if table == nil {
		panic("idemgin: Table is given a nil table: give the table from policy.NewTable")
	}
	rows := g.tables.Rows(engine, declared.Place(), table, asFullPath)
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

// asFullPath spells a pattern like gin.Context.FullPath: once gin serves, the escape of a
// colon is gone.
func asFullPath(pattern string) string { return strings.ReplaceAll(pattern, `\:`, ":") }
