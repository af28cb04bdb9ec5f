package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Declaration is one declared route: a field of an annotated struct, or a row of a
// Table.
type Declaration struct {
	// Source is the place of the declaration, for messages: a field's name, or
	// a file and line.
	Source string
	// Method and Pattern name the route, in the router's own syntax. For a tool of an MCP
	// server they are TOOL and the tool's name.
	Method, Pattern string
	// Guarded reports whether a policy was declared; without one, Policy is the
	// zero Policy and the route passes unguarded.
	Guarded bool
	// Policy is the declared policy. Its Methods hold the route's own method, and
	// any others that the declaration names.
	Policy Policy
}

// Route returns the declaration's method and pattern: "POST /payments".
func (d *Declaration) Route() string { return d.Method + " " + d.Pattern }

// safeMethods are read-only, so that a repetition does no harm: RFC 9110,
// section 9.2.1, and RFC 10008 for QUERY.
var safeMethods = []string{"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"}

// toolMethod is the method of a row that names a tool of an MCP server. It is
// storage.MethodTool, which this package cannot import.
const toolMethod = "TOOL"

// isTool reports whether a name has the length and the characters that MCP recommends for
// tools (SEP-986). Slashes are allowed too, because some servers group their tools by them.
func isTool(name string) bool {
	const characters = "_-./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	return 0 < len(name) && len(name) <= 128 && strings.Trim(name, characters) == ""
}

// setRoute reads "POST /payments" or "TOOL charge".
func (d *Declaration) setRoute(text string) error {
	method, pattern, _ := strings.Cut(strings.TrimSpace(text), " ")
	pattern = strings.TrimLeft(pattern, " ")
	switch {
	case !isMethod(method):
		return fmt.Errorf("%q is not a route: begin with a method in capital letters, as in %q", text, "POST /payments")
	case method == toolMethod && !isTool(pattern):
		return fmt.Errorf("%q names no tool: write 1 to 128 letters, digits and _ - . / after %s, as in %q", text, toolMethod, "TOOL charge")
	case method == toolMethod:
	case !strings.HasPrefix(pattern, "/"):
		return fmt.Errorf("%q is not a route: the pattern must begin with a slash, as in %q", text, method+" /payments")
	}
	d.Method, d.Pattern = method, pattern
	return nil
}

// guard gives the route its policy. It checks the options of every route, even of
// a route without a method (setRoute refused it).
func (d *Declaration) guard(opts ...Option) error {
	if slices.Contains(safeMethods, d.Method) {
		return fmt.Errorf("a policy on %s, which is safe to repeat as it is: declare policies on POST, PATCH, PUT or DELETE", d.Method)
	}
	if err := nilOptions(opts); err != nil {
		return err
	}
	if d.Method != "" {
		opts = slices.Concat([]Option{Methods(d.Method)}, opts)
	}
	declared, err := New(opts...)
	if err == nil && d.Method != "" && !declared.Guards(d.Method) {
		err = &FieldError{
			Field: "Methods", Value: strings.Join(declared.Methods, ","),
			Want: "left out, or name the route's own method, " + d.Method,
		}
	}
	if err != nil {
		return err
	}
	d.Guarded, d.Policy = true, declared
	return nil
}

// uniqueRoutes returns an error for each repeated route.
func uniqueRoutes(declarations []Declaration) error {
	var all []error
	first := make(map[string]string)
	for i := range declarations {
		d := &declarations[i]
		if source, taken := first[d.Route()]; taken {
			all = append(all, fmt.Errorf("%s: %s is declared by %s already", d.Source, d.Route(), source))
			continue
		}
		first[d.Route()] = d.Source
	}
	return errors.Join(all...)
}

// within puts the place before each error that errors.Join has joined, so that
// every line of the message names its place.
func within(place string, err error) error {
	joined, several := err.(interface{ Unwrap() []error })
	if !several {
		if err == nil {
			return nil
		}
		return fmt.Errorf("%s: %w", place, err)
	}
	all := slices.Clone(joined.Unwrap())
	for i, err := range all {
		all[i] = within(place, err)
	}
	return errors.Join(all...)
}

// Report holds the findings of an adapter's Audit of a program's routes.
type Report struct {
	// Errors are declarations without effect: table rows that match no route, or
	// whose route the table does not guard, and policies that guard no route or
	// refuse every request.
	Errors []error
	// Warnings may be intended. A warning names a route that takes POST or PATCH
	// without a policy, a PUT or DELETE that its policy does not guard, or
	// middleware that belongs outside the guard.
	Warnings []string
}

// Err returns the report's errors, joined, or nil.
func (r *Report) Err() error { return errors.Join(r.Errors...) }
