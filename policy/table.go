package policy

import (
	"errors"
	"fmt"
	"slices"
)

// Table lists routes and policies apart from the code that declares the routes.
// NewTable makes a Table in code, package tablefile from a file. A Table is immutable
// and safe for concurrent use.
//
//	table, err := policy.NewTable(
//		policy.Row("POST /payments", policy.TTLHours(48), policy.LockTTL(time.Minute)),
//		policy.Row("PATCH /members/{id}", policy.Required(false)),
//	)
//	r.Use(authenticate, idem.Table(table))
type Table struct{ rows []Declaration }

// TableRow is one route of a Table and the options of its policy.
type TableRow struct {
	// Source is the row's place in messages. Default "row 3" for the third row.
	Source string
	// Route is a method and a pattern in the router's own syntax, with the prefixes
	// of all groups: "POST /v1/payments/{id}". "TOOL charge" is a tool of an MCP server,
	// for adapters/mcp: 1 to 128 letters, digits and _ - . / name it.
	Route string
	// Options declare the policy. An empty list means the defaults.
	Options []Option
}

// Row returns the row of a route.
func Row(route string, opts ...Option) TableRow { return TableRow{Route: route, Options: opts} }

// NewTable returns a table of the rows. The error joins all faults, each with its
// row: a route that cannot be parsed or is repeated, a policy that Validate refuses,
// a policy on a safe method such as GET. The adapters' Audit functions check that
// the routes exist.
func NewTable(rows ...TableRow) (*Table, error) {
	var all []error
	declared := make([]Declaration, 0, len(rows))
	for i, row := range rows {
		source := row.Source
		if source == "" {
			source = fmt.Sprintf("row %d", i+1)
		}
		d := Declaration{Source: source}
		routeErr := d.setRoute(row.Route)
		policyErr := d.guard(row.Options...)
		if routeErr != nil || policyErr != nil {
			all = append(all, within("policy: "+source, routeErr), within(fmt.Sprintf("policy: %s: %s", source, row.Route), policyErr))
			continue
		}
		declared = append(declared, d)
	}
	all = append(all, within("policy", uniqueRoutes(declared)))
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	return &Table{declared}, nil
}

// Declarations returns the table's rows in order. It panics if t is nil, because a
// program that ignored the error of NewTable would guard no route.
func (t *Table) Declarations() []Declaration {
	if t == nil {
		panic("policy: the Table is nil: make it with NewTable, and check the error of NewTable")
	}
	return slices.Clone(t.rows)
}
