package rules

import (
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// Asked has the facts of a request that decide beside the record of its key.
type Asked struct {
	// Repeats says that the request is a retry of the record's.
	Repeats bool
	// Observes says that the route only observes. It stores no responses.
	Observes bool
	// Refuses says that the policy lets no request run for an abandoned key.
	Refuses bool
}

// Decide returns the code of the problem for a request that does not hold the lease of its
// key, or "" where the request gets the record's response.
func Decide(record *storage.Record, asked Asked) (code string) {
	switch {
	case !asked.Repeats:
		return problem.KeyReused
	case record.State == storage.Completed, record.State == storage.Failed:
		return ""
	case record.State == storage.Unreplayable && asked.Observes:
		return ""
	case record.State == storage.Unreplayable:
		return problem.NotReplayable
	case record.State == storage.Expired && record.Status == 0: // the key was abandoned
		return problem.OutcomeUnknown
	case record.State == storage.Expired:
		return problem.KeyExpired
	case record.Abandoned() && asked.Refuses:
		return problem.OutcomeUnknown
	default:
		return problem.InProgress
	}
}
