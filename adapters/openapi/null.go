package openapi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// nulls finds what is null in a document, where OpenAPI has no null, of the places
// that the routes are described in. It returns an error for each.
func nulls(doc *openapi3.T, routes []route) error {
	if doc.Paths == nil {
		return nil
	}
	byShape := make(map[string][]string)
	for _, route := range routes {
		shape := shapeOf(route.template)
		byShape[shape] = append(byShape[shape], route.declaration.Method)
	}
	var all []error
	for _, template := range doc.Paths.Keys() {
		guarded := byShape[shapeOf(template)]
		if guarded == nil {
			continue
		}
		place, item := "paths."+template, doc.Paths.Value(template)
		if item == nil {
			all = append(all, null(place))
			continue
		}
		all = append(all, nullParameters(place, item.Parameters))
		for _, method := range guarded {
			if operation := item.GetOperation(method); operation != nil {
				all = append(all, nullsIn(place+"."+strings.ToLower(method), operation))
			}
		}
	}
	return errors.Join(all...)
}

func null(place string) error {
	return fmt.Errorf("openapi: the document's %s is null: fill it in, or remove it", place)
}

func nullParameters(place string, parameters openapi3.Parameters) error {
	var all []error
	for i, parameter := range parameters {
		if parameter == nil || parameter.Ref == "" && parameter.Value == nil {
			all = append(all, null(fmt.Sprintf("%s.parameters[%d]", place, i)))
		}
	}
	return errors.Join(all...)
}

// nullsIn finds nulls in an operation: its parameters, its responses, and the
// schemas that an earlier Merge may have made.
func nullsIn(place string, operation *openapi3.Operation) error {
	all := []error{nullParameters(place, operation.Parameters)}
	for _, status := range operation.Responses.Keys() {
		place := place + ".responses." + status
		response := operation.Responses.Value(status)
		if response == nil || response.Ref == "" && response.Value == nil {
			all = append(all, null(place))
			continue
		}
		if schema := problemSchemaOf(response); schema != nil && len(schema.AllOf) > 0 && schema.AllOf[0] == nil {
			all = append(all, null(fmt.Sprintf("%s.content.%s.schema.allOf[0]", place, problemType)))
		}
	}
	return errors.Join(all...)
}
