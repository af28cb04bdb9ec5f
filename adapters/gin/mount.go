package idemgin

import (
	"errors"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/adapters/gin/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/policy"
)

// Mount declares the routes of an annotated struct on a router or a group,
// guarded by the policies of their tags. The fields are of type gin.HandlerFunc;
// policy.Annotations says what the tags are, with gin's patterns ("PATCH
// /members/:id"), and policy.Also adds what a tag cannot say.
//
// When anything is wrong it mounts nothing, and returns everything that is wrong
// at once (errors.Join), each with its field and tag: what Annotations reports, a
// policy that the engine refuses, a pattern that gin refuses, by itself or beside
// the routes that are there. To find that out it declares them all on a router of
// its own first, and sets gin's mode to release meanwhile, so that gin in debug
// mode does not print them twice.
func Mount(r gin.IRouter, idem *Guard, api any, also ...policy.Addition) error {
	if r == nil || idem == nil || idem.engine == nil {
		return errors.New("idemgin: Mount is given a nil router or a nil guard: give both")
	}
	fields, err := declared.Fields[gin.HandlerFunc](idem.engine, api, also)
	if err := errors.Join(err, try(r, fields)); err != nil {
		return err
	}
	var all []error
	for _, field := range fields {
		handler := field.Handler
		if field.Route != nil {
			handler = idem.handle(handler, field.Route)
		}
		all = append(all, declared.Try(&field.Declaration, func() { r.Handle(field.Method, field.Pattern, handler) }))
	}
	return errors.Join(all...) // of a router that is none of gin's own: try could not know its routes
}

var silence sync.Mutex

// try declares the routes on a router that has those of r already.
func try(r gin.IRouter, fields []declared.Field[gin.HandlerFunc]) error {
	silence.Lock()
	defer silence.Unlock()
	defer gin.SetMode(gin.Mode())
	gin.SetMode(gin.ReleaseMode)
	trial := gin.New()
	prefix := "/"
	if group, isGroup := r.(interface{ BasePath() string }); isGroup {
		prefix = group.BasePath()
	}
	if engine := routes.EngineOf(r); engine != nil {
		for _, route := range engine.Routes() {
			_ = declared.Try(new(policy.Declaration), func() { trial.Handle(route.Method, route.Path, route.HandlerFunc) }) // it is there already
		}
	}
	var all []error
	for i := range fields {
		field := &fields[i]
		all = append(all, declared.Try(&field.Declaration, func() { trial.Group(prefix).Handle(field.Method, field.Pattern, field.Handler) }))
	}
	return errors.Join(all...)
}
