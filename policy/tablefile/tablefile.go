// Package tablefile reads a policy.Table from a YAML or JSON file.
//
//	defaults: {TTLHours: 48}
//	routes:
//	  POST /payments: {LockTTL: 60s, ExcludeFields: [clientTimestamp, requestNonce]}
//	  PATCH /members/{id}: {Required: false}
//	  POST /refunds:
//
// A key of routes is a method and a pattern in the router's own syntax, its value
// the policy: the options of package policy by their names, each of its own type.
// Numbers and switches are written bare, durations ("60s") and modes ("Refuse") as
// text, names as lists. Defaults are options for every route, which a route's own
// override; a route without options has the defaults alone.
//
//	table, err := tablefile.Read("idempotency.yaml")
//	if err != nil { ... }             // everything that is wrong, with file and line
//	r.Use(idem.Table(table))
//
// JSON is read as the YAML that it is. The file is UTF-8, with or without a byte order
// mark. Numbers are decimal: 010, 0x10 and 1_000 are refused, because versions of YAML
// disagree on them. So are anchors, aliases, tags, merge keys and directives. Options
// that take a function (Classifier, Recover) cannot be written in a file.
package tablefile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/oncekey/oncekey/policy"
)

// Read reads the file at path. The error is Parse's, or that of reading the file.
func Read(path string) (*policy.Table, error) {
	data, err := os.ReadFile(path) //nolint:gosec // which file it is, the program says
	if err != nil {
		return nil, fmt.Errorf("policy: reading a table: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a table; name is the file's in messages. The error joins everything
// that is wrong, each with its line ("idempotency.yaml:7: …"): unknown and repeated
// names, values of the wrong type, what policy.NewTable refuses. Where the file is
// no YAML at all, it is the first place where it is not.
func Parse(name string, data []byte) (*policy.Table, error) {
	data = bytes.TrimPrefix(data, byteOrderMark)
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("%s:%d: the file is not UTF-8: save it as UTF-8", name, lineOfInvalid(data))
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey()) // repeated names are reported with the rest
	if err != nil {
		return nil, syntaxError(name, err)
	}
	read := &reader{name: name}
	read.file(file)
	table, err := policy.NewTable(read.rows...)
	if err := errors.Join(append(read.faults, err)...); err != nil {
		return nil, err
	}
	return table, nil
}

var byteOrderMark = []byte("\ufeff")

// lineOfInvalid returns the line of the first byte that is not UTF-8.
func lineOfInvalid(data []byte) int {
	valid := 0
	for valid < len(data) {
		char, size := utf8.DecodeRune(data[valid:])
		if char == utf8.RuneError && size == 1 {
			break
		}
		valid += size
	}
	return 1 + bytes.Count(data[:valid], []byte("\n"))
}

func syntaxError(name string, err error) error {
	if syntax, isSyntax := errors.AsType[*yaml.SyntaxError](err); isSyntax && syntax.Token != nil {
		return fmt.Errorf("%s:%d: no YAML: %s", name, syntax.Token.Position.Line, syntax.Message)
	}
	return fmt.Errorf("%s: no YAML: %w", name, err)
}

// reader reads one file.
type reader struct {
	name   string
	rows   []policy.TableRow
	faults []error
}

func (r *reader) fault(line int, err error) {
	r.faults = append(r.faults, fmt.Errorf("%s:%d: %w", r.name, line, err))
}

func (r *reader) file(file *ast.File) {
	defaults, routes, ok := r.sections(file.Docs)
	if !ok {
		return
	}
	common := r.settings(defaults.value, "defaults")
	if _, err := policy.New(common.options...); err != nil {
		common.report(r, "defaults", defaults.line, err)
		common = settings{} // said once is enough
	}
	all := r.entries(routes.value, "routes")
	if len(all) == 0 && len(r.faults) == 0 {
		r.fault(1, errors.New("there are no routes: write \"routes:\" and the routes below it"))
	}
	for _, route := range all {
		r.route(route, common)
	}
}

// sections returns the two sections of the file. It returns false if there is more than
// one document.
func (r *reader) sections(documents []*ast.DocumentNode) (defaults, routes entry, ok bool) {
	switch {
	case len(documents) == 0:
		return defaults, routes, true
	case documents[0].Body != nil && documents[0].Body.Type() == ast.DirectiveType:
		r.fault(lineOf(documents[0].Body), errors.New("a directive: leave it out"))
		return defaults, routes, false
	case len(documents) > 1:
		r.fault(startOf(documents[1]), errors.New("a second document: one table is one document"))
		return defaults, routes, false
	}
	for _, section := range r.entries(documents[0].Body, "the file") {
		switch section.key {
		case "defaults":
			defaults = section
		case "routes":
			routes = section
		default:
			r.fault(section.line, fmt.Errorf("unknown name %q: the names are defaults, routes", section.key))
		}
	}
	return defaults, routes, true
}

// route reads one row, and checks it by itself so that what is wrong has a line.
func (r *reader) route(route entry, common settings) {
	own := r.settings(route.value, route.key)
	row := policy.TableRow{
		Source: fmt.Sprintf("%s:%d", r.name, route.line), Route: route.key,
		Options: slices.Concat(common.options, own.options),
	}
	if _, err := policy.NewTable(row); err != nil {
		own.report(r, route.key, route.line, err)
		return
	}
	r.rows = append(r.rows, row)
}

// settings are options and where they were written.
type settings struct {
	options []policy.Option
	lines   map[string]int
}

// settings reads a mapping of option names to values.
func (r *reader) settings(node ast.Node, of string) settings {
	s := settings{lines: make(map[string]int)}
	for _, option := range r.entries(node, of) {
		value, err := valueOf(option.key, option.value)
		if err == nil {
			var opt policy.Option
			if opt, err = policy.Named(option.key, value); err == nil {
				s.options = append(s.options, opt)
			}
		}
		if err != nil {
			r.fault(option.line, fmt.Errorf("%s: %w", of, err))
		}
		s.lines[option.key] = option.line
	}
	if line, both := s.lines["TTLHours"], s.lines["TTL"] > 0; line > 0 && both {
		r.fault(line, fmt.Errorf("%s: TTL and TTLHours are both given: one is enough", of))
	} else if line > 0 {
		s.lines["TTL"] = line // the field that it sets
	}
	return s
}

// report reports what policy has found: each in the line of its option, or in that
// of the whole.
func (s *settings) report(r *reader, of string, line int, err error) {
	joined, several := err.(interface{ Unwrap() []error })
	if several {
		for _, err := range joined.Unwrap() {
			s.report(r, of, line, err)
		}
		return
	}
	if field, isField := errors.AsType[*policy.FieldError](err); isField {
		if at := s.lines[field.Field]; at > 0 {
			line = at
		}
		r.fault(line, fmt.Errorf("%s: %w", of, field))
		return
	}
	if inner := errors.Unwrap(err); inner != nil { // without the place that policy gave it
		err = inner
	}
	r.fault(line, err)
}
