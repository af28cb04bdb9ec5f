package policy

import (
	"net/http"
	"slices"

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

// listed returns the class of a status that a list has.
func (p *Policy) listed(status int) (failure.Class, bool) {
	if status == 0 || len(p.Free)+len(p.Keep)+len(p.Uncertain) == 0 {
		return 0, false
	}
	var found failure.Class
	any := false
	for _, list := range []struct {
		entries []string
		class   failure.Class
	}{{p.Free, failure.ClassDeleteKey}, {p.Keep, failure.ClassCache}, {p.Uncertain, failure.ClassUncertain}} {
		for _, entry := range list.entries {
			switch {
			case entry[0] != byte('0'+status/100):
			case entry[1:] == "xx":
				if !any {
					found, any = list.class, true
				}
			case entry[1] == byte('0'+status/10%10) && entry[2] == byte('0'+status%10):
				return list.class, true
			}
		}
	}
	return found, any
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
	for _, entry := range p.Free {
		check(isStatuses(entry, '4'), "Free", entry, "a status from 400 to 599, or the class 4xx or 5xx")
	}
	for _, entry := range p.Keep {
		check(isStatuses(entry, '2'), "Keep", entry, "a status from 200 to 599, or a class such as 5xx")
		check(!slices.Contains(p.Free, entry), "Keep", entry, "in one list only: Free has it too")
	}
	for _, entry := range p.Uncertain {
		check(isStatuses(entry, '2'), "Uncertain", entry, "a status from 200 to 599, or a class such as 5xx")
		check(!slices.Contains(p.Free, entry), "Uncertain", entry, "in one list only: Free has it too")
		check(!slices.Contains(p.Keep, entry), "Uncertain", entry, "in one list only: Keep has it too")
	}
}
