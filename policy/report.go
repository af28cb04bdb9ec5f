package policy

import "errors"

// Report is what an adapter's Audit found out about the routes of a program.
type Report struct {
	// Errors are declarations without effect: rows of a table that match no
	// route, or whose route the table does not guard.
	Errors []error
	// Warnings are what may be on purpose: a route that takes POST or PATCH and
	// that no policy covers. Each names its route.
	Warnings []string
}

// Err returns the report's errors, joined, or nil.
func (r *Report) Err() error { return errors.Join(r.Errors...) }
