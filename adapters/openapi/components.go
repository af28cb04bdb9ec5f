package openapi

import (
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/policy"
)

// The names of the components that Merge adds, beside those of engineResponses and of the
// examples.
const (
	problemName    = "IdempotencyProblem"
	keyName        = "IdempotencyKey"
	replayName     = "IdempotentReplay"
	redactedName   = "IdempotentRedacted"
	expiryName     = "IdempotencyExpiry"
	echoName       = "IdempotencyKeyEcho"
	retryAfterName = "IdempotencyRetryAfter"
	examplePrefix  = "idempotency_"
)

// named is a JSON value and its name.
type named struct{ name, value string }

// components are the components of one kind.
type components struct {
	kind string
	all  []named
}

// library collects the components that the descriptions need.
type library struct {
	settings
	needed []components
	theirs gjson.Result // the document's components.responses
}

// ref returns a $ref to a component, which the document then needs.
func (l *library) ref(kind, name, value string) string {
	if l.need(kind, name) == "" {
		at := slices.IndexFunc(l.needed, func(c components) bool { return c.kind == kind })
		if at < 0 {
			at, l.needed = len(l.needed), append(l.needed, components{kind: kind})
		}
		l.needed[at].all = append(l.needed[at].all, named{name, value})
	}
	return refTo(kind, name)
}

// need returns the component that the document needs by this name, or "".
func (l *library) need(kind, name string) string {
	for _, of := range l.needed {
		for _, component := range of.all {
			if of.kind == kind && component.name == name {
				return component.value
			}
		}
	}
	return ""
}

// codesName is the member of a response and of a media type in which Merge lists the
// engine's codes that a program's writer writes there.
const codesName = "x-idempotency-codes"

func componentPath(kind, name string) string { return "#/components/" + kind + "/" + name }

func refTo(kind, name string) string { return compact("$ref", quoted(componentPath(kind, name))) }

// addComponents adds the needed components that the document does not have.
func (l *library) addComponents(r *reader, root *object) {
	all := r.object(root, "components")
	for _, ours := range l.needed {
		ofKind := r.object(&all, ours.kind)
		for _, component := range ours.all {
			if other := ofKind.find(component.name); other == nil {
				ofKind.add(component.name, component.value)
			} else if !equalJSON(other.value, component.value) {
				r.faults = append(r.faults, fmt.Errorf(
					"openapi: the document has another %s.%s: rename it, or remove it if an earlier Merge added it", ofKind.place, component.name))
			}
		}
		all.set(ours.kind, ofKind.text())
	}
	root.set("components", all.text())
}

// problemSchema describes the JSON of problem.Problem.
const problemSchema = `{
	"type": "object",
	"required": ["type", "title", "status", "detail", "code", "error"],
	"properties": {
		"type": {"type": "string", "format": "uri", "description": "A page about the code."},
		"title": {"type": "string"},
		"status": {"type": "integer"},
		"detail": {"type": "string", "description": "What to do."},
		"code": {"type": "string", "description": "For programs."},
		"error": {"type": "string"},
		"differs": {"type": "array", "items": {"type": "string"}, "description": "The members that differ from the key's first request."},
		"others": {"type": "integer", "minimum": 1, "description": "The number of differing members that differs does not name."}
	}
}`

const replayHeader = `{
	"description": "Present when the response is a replay of a stored response: the operation ran once.",
	"schema": {"type": "string", "enum": ["true"]}
}`

const redactedHeader = `{
	"description": "On a replay: the members that the stored response does not have.",
	"schema": {"type": "string"}
}`

const expiryHeader = `{
	"description": "When the stored response expires, as an HTTP date. Absent if the response is not stored.",
	"schema": {"type": "string"}
}`

const echoHeader = `{
	"description": "The Idempotency-Key of the request, as the client has written it. Absent if the request has no such header, or an invalid one.",
	"schema": {"type": "string"}
}`

const retryAfterHeader = `{
	"description": "Seconds to wait before the next attempt with the same Idempotency-Key.",
	"schema": {"type": "integer", "minimum": 1}
}`

// keySchema describes the values that core.ParseKey reads: a raw key, or a key as an RFC
// 8941 string in quotes. The expressions work in ECMAScript and in RE2, so they have no
// look-ahead. Some generators of code, such as ogen, cannot choose between two kinds of
// strings, so there is no oneOf.
const keySchema = `{
	"type": "string",
	"minLength": 1,
	"maxLength": 512,
	"pattern": "^([!#-+\\x2D-:<-~]{1,255}|\"([!#-\\x5B\\x5D-~]|\\\\[\"\\\\]){1,255}\")$",
	"not": {"pattern": "^(\\?[01]|:.*:|\\(.*\\))$"}
}`

// keyOf returns the schema of the keys of a format: raw, or in quotes. Generators of code
// cannot join two patterns by allOf, so the pattern of all keys stands behind two negations.
func (l *library) keyOf(format policy.KeySyntax) string {
	every := l.ref("schemas", keyName, keySchema)
	keys, ok := plainOf(format.Expression())
	if !ok {
		return every
	}
	return compact("type", `"string"`, "pattern", quoted("^(?:"+keys+`|"(?:`+keys+`)")$`), "not", compact("not", every))
}

// isOurKey reports whether an earlier Merge described the parameter.
func isOurKey(parameter gjson.Result) bool {
	key := componentPath("schemas", keyName)
	return parameter.Get("schema.$ref").Str == key || parameter.Get("schema.not.not.$ref").Str == key
}
