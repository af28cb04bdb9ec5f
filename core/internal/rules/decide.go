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
	isHTTP := record.Status == min(max(record.Status, 100), 999) // net/http panics over any other status
	switch {
	case !asked.Repeats:
		return problem.KeyReused
	case isHTTP && record.State == storage.Completed, isHTTP && record.State == storage.Failed,
		record.State == storage.Unreplayable && asked.Observes:
		return ""
	case record.State == storage.Unreplayable, record.State == storage.Completed, record.State == storage.Failed:
		return problem.NotReplayable
	case record.State == storage.Expired && record.Status == 0, record.Abandoned() && asked.Refuses: // each was abandoned
		return problem.OutcomeUnknown
	case record.State == storage.Expired:
		return problem.KeyExpired
	default:
		return problem.InProgress
	}
}
