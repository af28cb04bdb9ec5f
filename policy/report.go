package policy

import "errors"

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
