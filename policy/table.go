package policy

import (
	"errors"
	"fmt"
	"slices"
)

// Table is a list of routes with their policies, kept apart from where the
// routes are declared: in code, or in a file (package tablefile). It is
// immutable and safe for concurrent use; NewTable makes it.
//
//	table, err := policy.NewTable(
//		policy.Row("POST /payments", policy.TTLHours(48), policy.LockTTL(time.Minute)),
//		policy.Row("PATCH /members/{id}", policy.Required(false)),
//	)
//	r.Use(authenticate, idem.Table(table))
type Table struct{ rows []Declaration }

// TableRow is one route of a Table, with its policy.
type TableRow struct {
	// Source says in messages where the row was written. Default "row 3".
	Source string
	// Route is a method and a pattern in the router's own syntax, as it is when
	// the router's prefixes are put together: "POST /v1/payments/{id}".
	Route string
	// Options declare the policy; none means the defaults.
	Options []Option
}

// Row returns the row of a route.
func Row(route string, opts ...Option) TableRow { return TableRow{Route: route, Options: opts} }

// NewTable returns the table of these rows, or an error that joins everything
// that is wrong, each with its row: a route that cannot be read or is there
// twice, a policy that Validate refuses, a policy on a safe method such as GET.
// Whether the routes exist, the adapters' Audit finds out.
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
	if err := uniqueRoutes(declared); err != nil {
		all = append(all, within("policy", err))
	}
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	return &Table{declared}, nil
}

// Declarations returns the table's rows, in their order. It panics if t is nil: a
// program that ignored the error of NewTable would guard no route.
func (t *Table) Declarations() []Declaration {
	if t == nil {
		panic("policy: the Table is nil: make it with NewTable, and look at the error that it returns")
	}
	return slices.Clone(t.rows)
}
