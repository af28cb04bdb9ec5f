package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// reader reads the parts of a document that a merge changes, and collects the
// faults in them.
type reader struct {
	document gjson.Result
	targets  map[string]gjson.Result // of the $refs so far: to find one in a large document takes long
	faults   []error
}

// open returns the document's object, and the white space around it.
func (r *reader) open(document []byte) (root object, before, after string, err error) {
	if err := isJSON(document); err != nil {
		return object{}, "", "", err
	}
	text := strings.Trim(string(document), white)
	before, after, _ = strings.Cut(string(document), text)
	r.document = gjson.Parse(text)
	if !r.document.IsObject() {
		return object{}, "", "", fmt.Errorf("openapi: the document is %s: give an OpenAPI document in JSON, or call Document", kindOf(text))
	}
	root = cut(text)
	_, root.unit, _ = strings.Cut(root.lead(), "\n")
	r.checkNames(&root)
	err = r.checkVersion(&root)
	return root, before, after, err
}

var yamlLine = regexp.MustCompile(`(?m)^(---|%YAML|["']?(openapi|swagger|info|paths)["']?\s*:)`)

// isJSON returns nil for JSON. Otherwise its error has the place of the first syntax
// error, or names another language.
func isJSON(document []byte) error {
	var text json.RawMessage
	err := json.Unmarshal(document, &text)
	trimmed := bytes.TrimLeft(document, white)
	switch {
	case err == nil:
		return nil
	case len(trimmed) == 0:
		return errors.New("openapi: the document is empty: give an OpenAPI document in JSON, or call Document")
	case bytes.HasPrefix(document, []byte("\xef\xbb\xbf")):
		return errors.New("openapi: the document begins with a byte order mark: remove it")
	case trimmed[0] != '{' && yamlLine.Match(document):
		return errors.New("openapi: the document is YAML: convert it to JSON first")
	}
	read := document
	if syntax, is := errors.AsType[*json.SyntaxError](err); is {
		read = document[:min(max(syntax.Offset, 0), int64(len(document)))]
	}
	line, column := 1+bytes.Count(read, []byte("\n")), len(read)-1-bytes.LastIndexByte(read, '\n')
	return fmt.Errorf("openapi: the document is not JSON: line %d, column %d: %w", line, column, err)
}

func (r *reader) checkVersion(root *object) error {
	const want = "give an OpenAPI document of version 3, such as 3.1.0"
	version := root.find("openapi")
	switch {
	case version != nil && strings.HasPrefix(gjson.Parse(version.value).Str, "3."):
		return nil
	case version != nil:
		return fmt.Errorf("openapi: the document's openapi is %s: %s", version.value, want)
	case root.find("swagger") != nil:
		return fmt.Errorf("openapi: the document is Swagger %s: %s", root.find("swagger").value, want)
	}
	return fmt.Errorf("openapi: the document has no member openapi: %s", want)
}

// fail adds a fault, unless the list already has it.
func (r *reader) fail(format string, args ...any) {
	r.faults = appendNew(r.faults, fmt.Errorf("openapi: the document's "+format, args...))
}

// appendNew appends an error, unless the list has one of this text.
func appendNew(all []error, err error) []error {
	if slices.ContainsFunc(all, func(other error) bool { return other.Error() == err.Error() }) {
		return all
	}
	return append(all, err)
}

// object cuts the member name of o. An absent or null member counts as empty.
func (r *reader) object(o *object, name string) object {
	return r.container(o, name, object{})
}

// array does the same as object for an array.
func (r *reader) array(o *object, name string) object {
	return r.container(o, name, object{isArray: true})
}

func (r *reader) container(o *object, name string, empty object) object {
	empty.place, empty.unit = strings.TrimPrefix(o.place+"."+name, "."), o.unit
	m := o.find(name)
	if m == nil || m.value == "null" {
		return empty
	}
	return r.cut(m.value, empty)
}

// cut cuts a value that must have the kind of empty.
func (r *reader) cut(value string, empty object) object {
	open, _ := empty.brackets()
	if value == "null" {
		r.fail("%s is null: fill it in, or remove it", empty.place)
		return empty
	}
	if !strings.HasPrefix(value, open) {
		r.fail("%s is %s: it must be %s", empty.place, kindOf(value), kindOf(open))
		return empty
	}
	o := cut(value)
	o.place, o.unit = empty.place, empty.unit
	r.checkNames(&o)
	return o
}

// checkNames finds names that o has twice. JSON parsers differ in the member that counts.
func (r *reader) checkNames(o *object) {
	if o.isArray {
		return
	}
	seen := make(map[string]bool, len(o.members))
	for _, m := range o.members {
		if seen[m.name] {
			r.fail("%s is defined twice: remove one", strings.TrimPrefix(o.place+"."+m.name, "."))
		}
		seen[m.name] = true
	}
}

func kindOf(value string) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func isExtension(name string) bool { return strings.HasPrefix(name, "x-") }

// change changes a response, unless it is a $ref: other routes may share the response.
func (r *reader) change(responses *object, status string, by func(response *object)) {
	response := r.object(responses, status)
	if response.find("$ref") != nil {
		return
	}
	by(&response)
	responses.set(status, response.text())
}

// parameter is the location and the name of a parameter.
type parameter struct{ in, name string }

// parameters returns the parameters of an operation or a path. A $ref to another document
// has no name.
func (r *reader) parameters(o *object) (all []parameter) {
	array := r.array(o, "parameters")
	for i, m := range array.members {
		r.cut(m.value, object{place: fmt.Sprintf("%s[%d]", array.place, i)})
		value := r.resolved(gjson.Parse(m.value))
		all = append(all, parameter{value.Get("in").Str, value.Get("name").Str})
	}
	return all
}

// resolved follows up to 8 $refs within the document. A longer chain is taken for a
// circle.
func (r *reader) resolved(value gjson.Result) gjson.Result {
	for range 8 {
		pointer, isOurs := strings.CutPrefix(value.Get("$ref").Str, "#/")
		if !isOurs {
			break
		}
		target, isKnown := r.targets[pointer]
		if !isKnown {
			target = at(r.document, pointer)
			r.targets[pointer] = target
		}
		value = target
	}
	return value
}

// at returns the value at a JSON pointer, without its first slash.
func at(value gjson.Result, pointer string) gjson.Result {
	for token := range strings.SplitSeq(pointer, "/") {
		if plain, err := url.PathUnescape(token); err == nil {
			token = plain
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		value = value.Get(gjson.Escape(token))
	}
	return value
}

func equalJSON(a, b string) bool {
	var values [2]any
	for i, text := range []string{a, b} {
		if json.Unmarshal([]byte(text), &values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
