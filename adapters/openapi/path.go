package openapi

import (
	"slices"
	"strings"
)

// pathParameter is a parameter of a path. Its expression is a regular expression or
// empty. A rest may contain slashes.
type pathParameter struct {
	name, expression string
	isRest           bool
}

// templateOf converts a router's pattern to a path template and its parameters. Every
// brace of the pattern must be closed.
func templateOf(pattern string) (template string, parameters []pathParameter) {
	var out strings.Builder
	add := func(name, expression string, rest bool) {
		parameters = append(parameters, pathParameter{name, expression, rest})
		out.WriteString("{" + name + "}")
	}
	for i := 0; i < len(pattern); {
		atStart := i > 0 && pattern[i-1] == '/'
		switch c := pattern[i]; {
		case c == '{':
			end := i + closing(pattern[i:])
			name, expression, _ := strings.Cut(pattern[i+1:end], ":")
			add(name, expression, false)
			i = end + 1
		case c == '*':
			name := pattern[i+1:]
			if name == "" {
				name = "wildcard"
			}
			add(name, "", true)
			i = len(pattern)
		case c == ':' && atStart:
			name, _, _ := strings.Cut(pattern[i+1:], "/")
			add(name, "", false)
			i += 1 + len(name)
		case strings.HasPrefix(pattern[i:], `\:`): // gin's escape
			out.WriteByte(':')
			i += 2
		default:
			out.WriteByte(c)
			i++
		}
	}
	return out.String(), parameters
}

// isClosed reports whether every brace of the pattern is closed.
func isClosed(pattern string) bool {
	for {
		brace := strings.IndexByte(pattern, '{')
		if brace < 0 {
			return true
		}
		end := closing(pattern[brace:])
		if end < 0 {
			return false
		}
		pattern = pattern[brace+end:]
	}
}

// closing returns the offset of the brace that closes the first brace of s, or -1.
func closing(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// describedAs returns the parameter in JSON, under the template's name.
func (p pathParameter) describedAs(name string) string {
	schema := []string{"type", `"string"`}
	if values, ok := plainOf(p.expression); ok { // chi puts the same anchors around it
		schema = append(schema, "pattern", quoted("^"+values+"$"))
	}
	members := []string{"name", quoted(name), "in", `"path"`}
	if p.isRest {
		members = append(members, "description", `"The rest of the path, including slashes."`)
	}
	return compact(append(members, "required", "true", "schema", compact(schema...))...)
}

// pathParameters declares the template's parameters that the path does not declare. An
// existing template of the document keeps its own names.
func (r *route) pathParameters(template string, declared []parameter) (all []string) {
	names := namesIn(template)
	for i, p := range r.parameters {
		if !slices.Contains(declared, parameter{"path", names[i]}) {
			all = append(all, p.describedAs(names[i]))
		}
	}
	return all
}

// shapeOf is a template without the names of its parameters. In OpenAPI, two templates of
// one shape are the same path.
func shapeOf(template string) string {
	for _, name := range namesIn(template) {
		template = strings.Replace(template, "{"+name+"}", "{}", 1)
	}
	return template
}

// namesIn returns the names of a template's parameters in order.
func namesIn(template string) (names []string) {
	for {
		_, after, _ := strings.Cut(template, "{")
		name, rest, closed := strings.Cut(after, "}")
		if !closed {
			return names
		}
		names, template = append(names, name), rest
	}
}
