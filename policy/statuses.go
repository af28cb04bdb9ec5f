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

// listed returns the class of a status that a list has. A status beats a class. No list has zero.
func (p *Policy) listed(status int) (class failure.Class, found bool) {
	if len(p.Release)+len(p.Keep)+len(p.Uncertain) == 0 {
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

// isStatus reports whether an entry of a list is a status from 200 on, or a class of them.
func isStatus(entry string) bool {
	if len(entry) != 3 || entry[0] < '2' || entry[0] > '5' {
		return false
	}
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	return entry[1:] == "xx" || isDigit(entry[1]) && isDigit(entry[2])
}

// isError reports whether an entry is a status from 400 on, or a class of them.
func isError(entry string) bool { return isStatus(entry) && entry[0] >= '4' }
