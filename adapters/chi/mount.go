package idemchi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/oncekey/oncekey/adapters/chi/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/policy"
)

// Mount declares the routes of an annotated struct on r, guarded by the policies in
// the tags. The fields have the type http.HandlerFunc. policy.Annotations describes
// the tags, and policy.Also adds options that a tag cannot hold.
//
// If there is any fault, Mount declares no route and returns all faults, joined by
// errors.Join, each with its field and tag: the faults from Annotations, a policy that
// the engine refuses, a pattern that chi refuses, and a route that r already has. chi
// itself would replace such a route without an error.
func Mount(r chi.Router, idem *Guard, api any, also ...policy.Addition) error {
	if r == nil || idem == nil {
		return errors.New("idemchi: Mount is given a nil router or a nil guard: give both")
	}
	fields, err := declared.Fields[http.HandlerFunc](idem.engine, declared.Place(), api, also, routes.Canonical)
	all := []error{err}
	taken := make(map[declared.Key]string) // the owner of each route
	for _, route := range r.Routes() {
		for method := range route.Handlers {
			taken[declared.Key{Method: method, Pattern: declared.Shape(route.Pattern)}] = "the router"
		}
	}
	trial := chi.NewRouter()
	for i := range fields {
		field := &fields[i]
		key := declared.Key{Method: field.Method, Pattern: declared.Shape(field.Pattern)}
		if owner := taken[key]; owner != "" {
			all = append(all, fmt.Errorf("policy: %s: %s is a route of %s already", field.Source, field.Declaration.Route(), owner))
		}
		taken[key] = field.Source
		all = append(all, declared.Try(&field.Declaration, func() { trial.Method(field.Method, field.Pattern, field.Handler) }))
	}
	if err := errors.Join(all...); err != nil {
		return err
	}
	for _, field := range fields {
		handler := field.Handler
		if field.Route != nil {
			handler = idem.handle(handler, field.Route)
		}
		r.Method(field.Method, field.Pattern, handler)
	}
	return nil
}
