// Package tablefile reads a policy.Table from a YAML or JSON file.
//
//	defaults: {TTLHours: 48}
//	routes:
//	  POST /payments: {LockTTL: 60s, ExcludeFields: [clientTimestamp, requestNonce]}
//	  PATCH /members/{id}: {Required: false}
//	  POST /refunds:
//
// Each key of routes is a method and a pattern in the router's own syntax, or TOOL and the
// name of a tool of an MCP server ("TOOL charge"). Its value
// holds options by their names in package policy. Write numbers and booleans bare,
// durations ("60s") and modes ("Refuse") as text, names as lists, statuses as numbers or
// classes, also one alone (Keep: 422). The options in
// defaults apply to every route; a route's own options override the defaults.
//
//	table, err := tablefile.Read("idempotency.yaml")
//	if err != nil { ... }             // all faults, with file and line
//	r.Use(idem.Table(table))
//
// JSON is valid YAML. The file is UTF-8, with or without a byte order mark. Numbers
// are decimal: 010, 0x10 and 1_000 are refused, because versions of YAML disagree on
// their values. Anchors, aliases, tags, merge keys and directives are refused too. A
// file cannot set options that take a function (Classifier, Recover, SkipIf). A file may have
// 256 KiB, 100 levels and 100 block texts (| or >).
package tablefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/oncekey/oncekey/policy"
)

// Read reads and parses the file at path. The error comes from os.ReadFile or Parse.
func Read(path string) (*policy.Table, error) {
	file, err := os.Open(path) //nolint:gosec // the program chooses the file
	if err != nil {
		return nil, fmt.Errorf("policy: reading a table: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("policy: reading a table: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a table from data; name is the file's name in messages. The error joins
// all faults, each with its line ("idempotency.yaml:7: …"): unknown and repeated
// names, values of the wrong type, the faults that policy.NewTable finds. For invalid
// YAML the error names the first invalid line.
func Parse(name string, data []byte) (*policy.Table, error) {
	data = bytes.TrimPrefix(data, byteOrderMark)
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: the file has more than %d bytes: it must have at most so many", name, maxFile)
	}
	line := 0
	for text := range bytes.Lines(data) {
		if line++; !utf8.Valid(text) {
			return nil, fmt.Errorf("%s:%d: the file is not UTF-8: save it as UTF-8", name, line)
		}
	}
	if line, err := tooDeep(data); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, line, err)
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

func syntaxError(name string, err error) error {
	if syntax, isSyntax := errors.AsType[*yaml.SyntaxError](err); isSyntax && syntax.Token != nil {
		return fmt.Errorf("%s:%d: not valid YAML: %s", name, syntax.Token.Position.Line, syntax.Message)
	}
	return fmt.Errorf("%s: not valid YAML: %w", name, err)
}

// reader collects the rows and faults of one file.
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
		common = settings{} // report the fault once, not for each route
	}
	all := r.entries(routes.value, "routes")
	if len(all) == 0 && len(r.faults) == 0 {
		r.fault(1, errors.New("there are no routes: write \"routes:\" and list the routes under that key"))
	}
	for _, route := range all {
		r.route(route, common)
	}
}

// sections returns the two sections of the file. It returns false for a directive or a
// second document.
func (r *reader) sections(documents []*ast.DocumentNode) (defaults, routes entry, ok bool) {
	switch {
	case len(documents) == 0:
		return defaults, routes, true
	case documents[0].Body != nil && documents[0].Body.Type() == ast.DirectiveType:
		r.fault(lineOf(documents[0].Body), errors.New("a directive is not supported: remove the line"))
		return defaults, routes, false
	case len(documents) > 1:
		r.fault(startOf(documents[1]), errors.New("a second document: write one document per file"))
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

// route reads one row. It checks each row alone, so that every fault has a line.
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

// settings are options and the lines of the fields that they set.
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
		s.lines[strings.TrimSuffix(option.key, "Hours")] = option.line // TTLHours sets the field TTL
	}
	return s
}

// report adds the faults that package policy found: each with the line of its option,
// or with the line of the route.
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
	if inner := errors.Unwrap(err); inner != nil { // drop the place that package policy added
		err = inner
	}
	r.fault(line, err)
}
