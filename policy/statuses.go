package policy

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/oncekey/oncekey/failure"
)

// countedStatus is the status by which the lists know an outcome; zero for an error
// of a function, which has none.
func countedStatus(o failure.Outcome) int {
	switch {
	case o.Panicked:
		return http.StatusInternalServerError
	case o.Status == 0 && o.ContextEnded && !failure.IsPermanent(o.Err):
		return http.StatusServiceUnavailable
	default:
		return o.Status
	}
}

// listed returns the class of a status that a list has. A status beats a class.
func (p *Policy) listed(status int) (class failure.Class, found bool) {
	if status == 0 || len(p.Release)+len(p.Keep)+len(p.Uncertain) == 0 {
		return 0, false
	}
	for _, entry := range []string{strconv.Itoa(status), strconv.Itoa(status/100) + "xx"} {
		switch {
		case slices.Contains(p.Release, entry):
			return failure.ClassDeleteKey, true
		case slices.Contains(p.Keep, entry):
			return failure.ClassCache, true
		case slices.Contains(p.Uncertain, entry):
			return failure.ClassUncertain, true
		}
	}
	return 0, false
}

// isStatuses reports whether an entry of a list is a status or a class from first on.
func isStatuses(entry string, first byte) bool {
	if len(entry) != 3 || entry[0] < first || entry[0] > '5' {
		return false
	}
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	return entry[1:] == "xx" || isDigit(entry[1]) && isDigit(entry[2])
}

// validateStatuses checks the lists of statuses.
func (p *Policy) validateStatuses(check func(ok bool, field string, value any, want string, arguments ...any)) {
	for _, entry := range p.Release {
		check(isStatuses(entry, '4'), "Release", entry, "a status from 400 to 599, or the class 4xx or 5xx")
	}
	for _, entry := range p.Keep {
		check(isStatuses(entry, '2'), "Keep", entry, "a status from 200 to 599, or a class such as 5xx")
		check(!slices.Contains(p.Release, entry), "Keep", entry, "in one list only: Release has it too")
	}
	for _, entry := range p.Uncertain {
		check(isStatuses(entry, '2'), "Uncertain", entry, "a status from 200 to 599, or a class such as 5xx")
		check(!slices.Contains(p.Release, entry), "Uncertain", entry, "in one list only: Release has it too")
		check(!slices.Contains(p.Keep, entry), "Uncertain", entry, "in one list only: Keep has it too")
	}
}
