package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// The tags of an annotated struct.
const (
	routeTag  = "route"
	policyTag = "idempotency"
)

// Annotated is one annotated field: a declaration and a handler.
type Annotated[H any] struct {
	Declaration
	Handler H
}

// Addition holds options that a tag cannot express. Also makes it.
type Addition struct {
	field   string
	options []Option
}

// Also adds options to a field, after the options of its tag. Use it for functions
// such as Classifier and Recover, which a tag cannot hold. Name a field of a nested
// struct with its path: "Members.Update".
func Also(field string, opts ...Option) Addition { return Addition{field, opts} }

// Annotations reads the routes of an annotated struct or pointer to a struct. H is
// the handlers' type, such as http.HandlerFunc:
//
//	type API struct {
//		Pay    http.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48 LockTTL=60s"`
//		Update http.HandlerFunc `route:"PATCH /members/{id}" idempotency:""`
//		List   http.HandlerFunc `route:"GET /members"`
//	}
//
// The route tag is a method and a pattern in the router's own syntax. The
// idempotency tag is text for Parse: an empty tag means the defaults, and a route
// without the tag is not guarded. The policy guards the route's own method; safe
// methods take no policy. Annotations walks nested and embedded structs, and
// pointers to structs. The tag route:"-" leaves a handler out.
//
// Annotations returns every valid route, in field order, beside an error that joins
// all faults, each with its field and tag: a route or policy that cannot be parsed,
// a nil handler, an unexported field or a field of another type, a repeated route,
// an Addition to an unknown field, a tag that is misspelled or repeated, or cannot be
// parsed.
//
// Adapters call Annotations. Programs call idemchi.Mount or idemgin.Mount.
func Annotations[H any](api any, also ...Addition) ([]Annotated[H], error) {
	handlerType := reflect.TypeFor[H]()
	walk := walkAPI(api, handlerType, also)
	all := make([]Annotated[H], 0, len(walk.fields))
	for _, field := range walk.fields {
		if !field.value.IsValid() || field.value.IsNil() {
			walk.fault(field.declaration.Source, fmt.Errorf("%s: the handler is nil", tagOf(routeTag, field.declaration.Route())))
			continue
		}
		handler := field.value.Convert(handlerType).Interface().(H) //nolint:forcetypeassert // converted just now
		all = append(all, Annotated[H]{field.declaration, handler})
	}
	return all, errors.Join(walk.faults...)
}

// Declarations reads the routes of an annotated struct for documentation, as
// Annotations does. It needs no handlers, so a zero struct is enough.
func Declarations(api any, also ...Addition) ([]Declaration, error) {
	walk := walkAPI(api, nil, also)
	return walk.declarations(), errors.Join(walk.faults...)
}

// apiWalk collects the routes and faults of an annotated struct.
type apiWalk struct {
	name    string       // of the struct's type, or empty
	handler reflect.Type // nil: any function
	also    map[string][]Option
	known   map[string]bool // the fields that have a route
	fields  []apiField
	faults  []error
}

type apiField struct {
	declaration Declaration
	value       reflect.Value // not valid within a nil pointer
}

func walkAPI(api any, handler reflect.Type, also []Addition) *apiWalk {
	walk := &apiWalk{handler: handler, also: make(map[string][]Option), known: make(map[string]bool)}
	for _, addition := range also {
		walk.also[addition.field] = append(walk.also[addition.field], addition.options...)
	}
	structure, isStruct := structOf(reflect.TypeOf(api))
	if !isStruct {
		walk.faults = append(walk.faults, fmt.Errorf("policy: %T has no annotations: give a struct, or a pointer to one", api))
		return walk
	}
	walk.name = structure.Name()
	walk.group("", structure, dereferenced(reflect.ValueOf(api)), nil)
	if len(walk.fields) == 0 && len(walk.faults) == 0 {
		walk.faults = append(walk.faults, fmt.Errorf("policy: %T has no routes: add %s to its handlers", api, tagOf(routeTag, "METHOD /path")))
	}
	for _, addition := range also {
		if !walk.known[addition.field] {
			walk.faults = append(walk.faults, fmt.Errorf("policy: Also is given %q: name a field that has a route", addition.field))
			walk.known[addition.field] = true // once is enough
		}
	}
	walk.faults = append(walk.faults, within("policy", uniqueRoutes(walk.declarations())))
	return walk
}

func (w *apiWalk) declarations() []Declaration {
	all := make([]Declaration, len(w.fields))
	for i, field := range w.fields {
		all[i] = field.declaration
	}
	return all
}

// group walks the fields of one struct. outer holds the enclosing types, so that
// the walk of a recursive type ends.
func (w *apiWalk) group(prefix string, structure reflect.Type, value reflect.Value, outer []reflect.Type) {
	if slices.Contains(outer, structure) {
		return
	}
	for i := range structure.NumField() {
		field := structure.Field(i)
		var fieldValue reflect.Value
		if value.IsValid() {
			fieldValue = value.Field(i)
		}
		w.field(prefix+field.Name, field, fieldValue, append(slices.Clip(outer), structure))
	}
}

func (w *apiWalk) field(path string, field reflect.StructField, value reflect.Value, outer []reflect.Type) {
	source := path
	if w.name != "" {
		source = w.name + "." + path
	}
	if err := checkTag(string(field.Tag)); err != nil {
		w.fault(source, err)
	}
	route, hasRoute := field.Tag.Lookup(routeTag)
	text, hasPolicy := field.Tag.Lookup(policyTag)
	switch {
	case hasRoute && route != "-":
		w.known[path] = true
		w.route(source, path, field, value)
	case hasPolicy:
		w.fault(source, fmt.Errorf("%s without a route: add %s", tagOf(policyTag, text), tagOf(routeTag, "METHOD /path")))
	case !hasRoute:
		w.untagged(source, path, field, value, outer)
	}
}

// untagged checks a field without tags: a struct may hold routes, and a handler
// may lack its route.
func (w *apiWalk) untagged(source, path string, field reflect.StructField, value reflect.Value, outer []reflect.Type) {
	nested, isStruct := structOf(field.Type)
	switch {
	case isStruct && !isAnnotated(nested, nil): // it is there for something else
	case isStruct && (field.IsExported() || field.Anonymous):
		w.group(path+".", nested, dereferenced(value), outer)
	case isStruct:
		w.fault(source, errors.New("it holds routes and is not exported: begin its name with a capital letter"))
	case w.handler != nil && field.IsExported() && w.isHandler(field.Type):
		w.fault(source, fmt.Errorf("a handler without a route: add %s, or %s to leave it out", tagOf(routeTag, "METHOD /path"), tagOf(routeTag, "-")))
	}
}

func (w *apiWalk) isHandler(t reflect.Type) bool {
	return t.Kind() == reflect.Func && (w.handler == nil || t.ConvertibleTo(w.handler))
}

// route reads a field that has a route tag.
func (w *apiWalk) route(source, path string, field reflect.StructField, value reflect.Value) {
	route := tagOf(routeTag, field.Tag.Get(routeTag))
	if !field.IsExported() {
		w.fault(source, fmt.Errorf("%s on a field that is not exported: begin its name with a capital letter", route))
		return
	}
	if !w.isHandler(field.Type) {
		wanted := "a handler function"
		if w.handler != nil {
			wanted = w.handler.String()
		}
		w.fault(source, fmt.Errorf("%s on a field of type %v: it must be %s", route, field.Type, wanted))
		return
	}
	declared := Declaration{Source: source}
	wrong := false
	report := func(place string, err error) {
		if err != nil {
			wrong = true
			w.fault(source, within(place, err))
		}
	}
	report(route, declared.setRoute(field.Tag.Get(routeTag)))
	text, hasPolicy := field.Tag.Lookup(policyTag)
	switch also := w.also[path]; {
	case hasPolicy:
		report(tagOf(policyTag, text), declared.annotate(text, also))
	case len(also) > 0:
		report("Also", fmt.Errorf("the field has no policy to add to: add %s", tagOf(policyTag, "")))
	}
	if !wrong {
		w.fields = append(w.fields, apiField{declared, value})
	}
}

// annotate gives the route the policy of its tag.
func (d *Declaration) annotate(text string, also []Option) error {
	namesMethods := func(pair string) bool { return strings.HasPrefix(pair, "Methods=") }
	if d.Method != "" && !slices.ContainsFunc(strings.Fields(text), namesMethods) {
		text = "Methods=" + d.Method + " " + text
	}
	declared, err := Parse(text)
	if err := errors.Join(err, nilOptions(also)); err != nil {
		return err
	}
	return d.guard(append([]Option{From(declared)}, also...)...)
}

func (w *apiWalk) fault(source string, err error) {
	w.faults = append(w.faults, within("policy: "+source, err))
}

// isAnnotated reports whether a struct has one of our tags, or a misspelled one, at
// any depth.
func isAnnotated(structure reflect.Type, seen map[reflect.Type]bool) bool {
	if seen == nil {
		seen = make(map[reflect.Type]bool)
	}
	if seen[structure] {
		return false
	}
	seen[structure] = true
	for field := range structure.Fields() {
		_, hasRoute := field.Tag.Lookup(routeTag)
		_, hasPolicy := field.Tag.Lookup(policyTag)
		if hasRoute || hasPolicy || checkTag(string(field.Tag)) != nil {
			return true
		}
		if nested, isStruct := structOf(field.Type); isStruct && isAnnotated(nested, seen) {
			return true
		}
	}
	return false
}

func tagOf(name, value string) string { return fmt.Sprintf("%s:%q", name, value) }

// structOf returns the struct type of a struct, or of a pointer to one.
func structOf(t reflect.Type) (reflect.Type, bool) {
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t, t != nil && t.Kind() == reflect.Struct
}

// dereferenced follows a pointer. A nil pointer gives an invalid value.
func dereferenced(value reflect.Value) reflect.Value {
	if value.IsValid() && value.Kind() == reflect.Pointer {
		return value.Elem()
	}
	return value
}
