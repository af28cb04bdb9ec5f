package openapi

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// schemaOf returns a schema that all these JSON values match. Its keywords mean the same in
// OpenAPI 3.0 and 3.1. Values of several types, and null, match any schema only: {}.
func schemaOf(values []gjson.Result) string {
	switch kind := commonType(values); kind {
	case "":
		return "{}"
	case "object":
		return objectSchema(values)
	case "array":
		var items []gjson.Result
		for _, array := range values {
			items = append(items, array.Array()...)
		}
		return compact("type", `"array"`, "items", schemaOf(items))
	default:
		return compact("type", quoted(kind))
	}
}

// objectSchema requires the members that all objects have, and describes the others too.
func objectSchema(objects []gjson.Result) string {
	var names []string // in the order of their first appearance
	values := make(map[string][]gjson.Result)
	for _, object := range objects {
		members := make(map[string]gjson.Result) // of a repeated name the last value counts, as in most parsers
		object.ForEach(func(name, value gjson.Result) bool {
			if _, known := values[name.Str]; !known {
				names, values[name.Str] = append(names, name.Str), nil
			}
			members[name.Str] = value
			return true
		})
		for name, value := range members {
			values[name] = append(values[name], value)
		}
	}
	var required, properties []string
	for _, name := range names {
		if len(values[name]) == len(objects) {
			required = append(required, name)
		}
		properties = append(properties, name, memberSchema(name, values[name]))
	}
	schema := []string{"type", `"object"`}
	if len(required) > 0 {
		schema = append(schema, "required", list(required))
	}
	if len(properties) > 0 {
		schema = append(schema, "properties", compact(properties...))
	}
	return compact(schema...)
}

// memberSchema is the schema of a member. A member code depends on the problem alone, so
// its values are known. Other strings, such as messages, can differ from the examples.
func memberSchema(name string, values []gjson.Result) string {
	if name != "code" || commonType(values) != "string" {
		return schemaOf(values)
	}
	var codes []string
	for _, value := range values {
		if !slices.Contains(codes, value.Str) {
			codes = append(codes, value.Str)
		}
	}
	return compact("type", `"string"`, "enum", list(codes))
}

// commonType returns the type that all values have, or "".
func commonType(values []gjson.Result) (common string) {
	for i, value := range values {
		switch kind := typeOf(value); {
		case i == 0, common == "integer" && kind == "number":
			common = kind
		case kind != common && (kind != "integer" || common != "number"):
			return ""
		}
	}
	return common
}

// typeOf returns the type of a value in JSON Schema, or "" for null, which OpenAPI 3.0 has
// no type for.
func typeOf(value gjson.Result) string {
	switch {
	case value.IsObject():
		return "object"
	case value.IsArray():
		return "array"
	case value.IsBool():
		return "boolean"
	case value.Type == gjson.String:
		return "string"
	case value.Type == gjson.Null:
		return ""
	case strings.ContainsAny(value.Raw, ".eE"):
		return "number"
	}
	return "integer"
}

// plain matches an expression that means the same in RE2, in ECMA-262 with the u flag or
// without, and for a text as for its RFC 8941 string: letters, digits, _ - : / and dots, classes of
// them, groups, alternatives and repetitions.
var plain = regexp.MustCompile(`^(?:` +
	`(?:[\w:/-]|\\[dw.]|\[(?:[a-z]-[a-z]|[A-Z]-[A-Z]|\d-\d|[\w:.]|\\[dw])+-?\]|\))` + // one that may be repeated
	`(?:[*+?]|\{\d+(?:,\d*)?\})?\??` +
	`|\((?:\?:)?|\|)+$`)

// plainOf returns an expression without anchors at its ends, for a document, whose readers
// use ECMA-262's syntax. It returns false for an expression that is not plain, because
// (?i), \pL, \z and [[:alnum:]] are errors there or mean something else: the document then
// has no pattern.
func plainOf(expression string) (text string, ok bool) {
	text = strings.TrimSuffix(strings.TrimPrefix(expression, "^"), "$")
	if _, err := regexp.Compile(text); err != nil || !plain.MatchString(text) {
		return "", false
	}
	return strings.ReplaceAll(text, "-]", `\-]`), true // as the v flag asks
}
