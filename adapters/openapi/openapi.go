// Package openapi describes guarded routes in an OpenAPI document: the
// Idempotency-Key header, the header that marks a replay, and the problems that the
// engine responds with.
//
//	declared, err := policy.Declarations(API{})           // or table.Declarations()
//	document, err = openapi.Merge(document, declared)     // into a document of yours
//	fragment, err := openapi.Document(declared)           // or a document by itself
//
// A document is the text of a JSON file. Merge only adds members, after the existing
// members and with their indentation; all other text stays byte for byte. Keep your document
// apart from the merged one. Convert a YAML document to JSON first.
//
// Document makes OpenAPI 3.1. The members that Merge adds are valid in 3.0 too. Only
// problems that a route's policy can cause are described: a route with an optional key
// has no key_missing, and a policy that only observes has no problems. Problems have the
// engine's own form, RFC 9457, unless [ProblemWriter] gives Merge the writer of
// core.WithProblemWriter.
//
// The description of the key's parameter tells how long a key lives, and what may change
// between attempts. The member x-idempotency of an operation has the same for programs:
// ttlSeconds, rememberSeconds, lockTTLSeconds, excludeFields and others. The member
// x-idempotency-key-field names the member of the body that holds the key
// (policy.KeyField). Describe that member in the operation's requestBody. A row of a table
// that names a tool of an MCP server (TOOL charge) is left out.
//
// Problems are shared components: a response for each status, a schema, and an example
// for each code. The description of a response tells a client what to do about each code.
// In the form of a ProblemWriter a component is one response with its schema and examples:
// Idempotency409, or Idempotency409KeyExpiredOutcomeUnknown for a policy that causes these
// codes too. The member x-idempotency-codes of a response and of a media type lists the
// engine's codes behind it. Codes that are written with one status share its response.
//
// Declare the statuses of your handler in your document. Without any, an operation gets a
// response 2XX, and many generators of clients ignore such ranges.
//
// Patterns become path templates: chi's {id} and {id:[0-9]+}, gin's :id and *rest at the
// start of a segment, and chi's final *, whose parameter is called wildcard. A colon in
// the middle of a segment stays unchanged. A regular expression of a path or of a
// policy.KeyFormat is a pattern of the document where it is plain, so that it means the
// same in JSON Schema.
package openapi

import (
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/policy"
)

// skeleton is a document without paths.
const skeleton = `{
  "openapi": "3.1.0",
  "info": {
    "title": "Idempotent routes",
    "version": "1"
  },
  "servers": [
    {
      "url": "/"
    }
  ],
  "paths": {}
}
`

// Document returns the text of an OpenAPI 3.1 document with only the guarded routes among
// the declarations. The errors are those of Merge.
func Document(declarations []policy.Declaration, opts ...Option) ([]byte, error) {
	return Merge([]byte(skeleton), declarations, opts...)
}

// Merge returns the document with a description of the guarded routes among the
// declarations. The document is OpenAPI 3 in JSON. Merge adds missing parameters,
// responses, headers and media types by name, and leaves all other members unchanged. An
// existing path with other parameter names is the same path. Merge leaves a response that
// is a $ref alone, because other routes may share the response. A null in the place of an
// object or a list counts as absent.
//
// The path of a server's URL is the beginning of the document's paths: with the server
// https://api.example.com/v1 the route /v1/payments is the path /payments. The servers of a
// single path or operation do not count.
//
// Merge describes an operation once. To describe it anew, for example after a change of its
// policy, give Merge the document from before. An operation that Merge adds gets an operationId
// and a summary.
//
// Two engines with two writers (see [ProblemWriter]) can describe their routes in one document,
// by one Merge after the other. Where their forms differ, the second component has a number:
// Idempotency409-2. A media type of your own keeps its schema and examples, also where the
// writer writes that type.
//
// The error names every fault and its place:
//   - a document that is not JSON, or not OpenAPI 3;
//   - in the place of a route's description: a null or a value of the wrong type, a
//     member that is defined twice, a path item that is a $ref;
//   - an operation that an earlier Merge described;
//   - two paths of the document that differ only in the names of their parameters;
//   - a different component under the name of a component that Merge adds;
//   - a method that OpenAPI does not have, or two routes that are equal in OpenAPI (chi
//     separates such routes by a regular expression);
//   - a nil option, and a ProblemWriter that panics, or writes nothing or no valid response
//     for a code.
func Merge(document []byte, declarations []policy.Declaration, opts ...Option) ([]byte, error) {
	described, optErr := settingsOf(opts)
	r := reader{targets: make(map[string]gjson.Result)}
	root, before, after, readErr := r.open(document)
	routes, routeErr := routesOf(declarations, pathsOf(r.document))
	writeErr := record(&described, routes)
	if err := errors.Join(optErr, routeErr, readErr, writeErr); err != nil {
		return nil, err
	}
	m := merger{reader: r, library: library{settings: described, theirs: r.document.Get("components.responses")}, ids: r.operationIDs()}
	m.addPaths(&root, routes)
	m.addComponents(&m.reader, &root)
	switch {
	case len(m.faults) > 0:
		return nil, errors.Join(m.faults...)
	case len(routes) == 0:
		return slices.Clone(document), nil
	}
	return []byte(before + root.text() + after), nil
}

func (m *merger) addPaths(root *object, routes []route) {
	paths := m.object(root, "paths")
	byShape := make(map[string][]string)
	for _, path := range paths.members {
		if shape := shapeOf(path.name); !slices.Contains(byShape[shape], path.name) {
			byShape[shape] = append(byShape[shape], path.name)
		}
	}
	for _, route := range routes {
		template, shape := route.template, shapeOf(route.template)
		switch same := byShape[shape]; len(same) {
		case 0:
			byShape[shape] = []string{template}
		case 1:
			template = same[0]
		default:
			m.fail("paths.%s and paths.%s are the same path: leave one", same[0], same[1])
		}
		item := m.item(&paths, template)
		m.addOperation(&item, template, &route)
		paths.set(template, item.text())
	}
	root.set("paths", paths.text())
}

// item cuts the path item of a template. A missing path item counts as empty.
func (m *merger) item(paths *object, template string) object {
	empty := object{place: "paths." + template, unit: paths.unit}
	has := paths.find(template)
	if has == nil {
		return empty
	}
	item := m.cut(has.value, empty)
	if ref := item.find("$ref"); ref != nil {
		m.fail("%s is a $ref to %s: write the path item in its place", item.place, ref.value)
	}
	return item
}

func (m *merger) addOperation(item *object, template string, route *route) {
	method := strings.ToLower(route.declaration.Method)
	shared := m.parameters(item)
	operation := m.object(item, method)
	if m.isDescribed(&operation) {
		m.fail("%s was described by an earlier Merge: give Merge the document from before it", operation.place)
		return
	}
	if has := item.find(method); has == nil || has.value == "null" {
		operation.set("operationId", quoted(m.operationID(method, template)))
		operation.set("summary", quoted(route.declaration.Method+" "+template+", once for each key"))
		if parameters := route.pathParameters(template, shared); len(parameters) > 0 {
			operation.set("parameters", "["+strings.Join(parameters, ",")+"]")
		}
	}
	m.describe(&operation, shared, route)
	item.set(method, operation.text())
}
