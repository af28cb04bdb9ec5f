package policy

import "errors"

// Report is what an adapter's Audit found out about the routes of a program.
type Report struct {
	// Errors are declarations without effect: rows of a table that match no
	// route, or whose route the table does not guard, and policies that guard no
	// route or refuse every request.
	Errors []error
	// Warnings may be on purpose. They name a route that takes POST or PATCH
	// without a policy, a PUT or DELETE that its policy lets pass, or middleware
	// that belongs outside of the guard.
	Warnings []string
}

// Err returns the report's errors, joined, or nil.
func (r *Report) Err() error { return errors.Join(r.Errors...) }
