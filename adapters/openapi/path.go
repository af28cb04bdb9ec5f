package openapi

import (
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// templateOf makes a path template of a router's pattern, with its parameters. Every
// brace of the pattern is closed.
func templateOf(pattern string) (template string, parameters []*openapi3.Parameter) {
	var out strings.Builder
	add := func(name, expression string, rest bool) {
		parameters = append(parameters, pathParameter(name, expression, rest))
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
		case c == '\\' && strings.HasPrefix(pattern[i:], `\:`): // gin's escape
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

// closing returns where the brace that s begins with is closed, or -1.
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

func pathParameter(name, expression string, rest bool) *openapi3.Parameter {
	schema := openapi3.NewStringSchema()
	if expression != "" { // it stands for the whole segment
		schema.Pattern = "^" + strings.TrimSuffix(strings.TrimPrefix(expression, "^"), "$") + "$"
	}
	parameter := openapi3.NewPathParameter(name).WithSchema(schema)
	if rest {
		parameter.Description = "The rest of the path, slashes included."
	}
	return parameter
}

// pathParameters declares the template's parameters that the path does not. A
// template of the document's own has its own names.
func (r *route) pathParameters(template string, declared openapi3.Parameters) openapi3.Parameters {
	names := namesIn(template)
	var all openapi3.Parameters
	for i, parameter := range r.parameters {
		parameter.Name = names[i]
		if declared.GetByInAndName(openapi3.ParameterInPath, parameter.Name) == nil {
			all = append(all, &openapi3.ParameterRef{Value: parameter})
		}
	}
	return all
}

// shapeOf is a template without the names of its parameters: what makes two
// templates the same path to OpenAPI.
func shapeOf(template string) string {
	for _, name := range namesIn(template) {
		template = strings.Replace(template, "{"+name+"}", "{}", 1)
	}
	return template
}

// namesIn returns the names of a template's parameters, in their order.
func namesIn(template string) (names []string) {
	for {
		_, after, found := strings.Cut(template, "{")
		name, rest, closed := strings.Cut(after, "}")
		if !found || !closed {
			return names
		}
		names, template = append(names, name), rest
	}
}
