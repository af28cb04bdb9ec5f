package storetest

import (
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// steps returns the steps of the record that an Extend of the lease writes. e is nil
// for a lost claim.
func (m *model) steps(e *entry, l storage.Lease) string {
	switch {
	case m.bug == stepsForgotten, m.bug == stepsOfLostClaimForgotten && e == nil, m.bug == extendByZeroForgetsSteps && l.LockTTL == 0:
		return ""
	case m.bug == stepsTrimmed:
		return strings.TrimSpace(l.Steps)
	case m.bug == stepsCutShort:
		return l.Steps[:min(len(l.Steps), 1<<16-1)]
	case e != nil && m.bug == stepsAppended:
		return e.Lease.Steps + l.Steps
	case e != nil && m.bug != shorterStepsWin && len(e.Lease.Steps) > len(l.Steps):
		return e.Lease.Steps
	default:
		return l.Steps
	}
}

// stepsFor returns the entry's steps for a claim, unless the model has the bug.
func (m *model) stepsFor(e *entry, b bug) string {
	if m.bug == b {
		return ""
	}
	return e.Lease.Steps
}

// stepsOfTheOneBefore returns the steps of a record that has expired.
func (m *model) stepsOfTheOneBefore(key string) string {
	if e := m.records[m.name(key)]; e != nil && m.bug == stepsKeptAfterExpiry {
		return e.Lease.Steps
	}
	return ""
}

// withoutSteps is the lease as a released record keeps it.
func (m *model) withoutSteps(e *entry, l storage.Lease) storage.Lease {
	if l.Steps = ""; m.bug == stepsKeptAfterRelease {
		l.Steps = e.Lease.Steps
	}
	return l
}

func stepBugs() []brokenStore {
	return []brokenStore{
		{"steps are forgotten", stepsForgotten, "steps"},
		{"steps are appended to steps", stepsAppended, "steps"},
		{"a record in progress has no steps", stepsNotInRecord, "steps"},
		{"a take-over gets no steps", stepsNotReturnedToTakeOver, "steps of an abandoned run"},
		{"an extend by zero forgets the steps", extendByZeroForgetsSteps, "steps of an abandoned run"},
		{"a take-over drops the steps", takeOverDropsSteps, "steps of an abandoned run"},
		{"a repeated Acquire gets no steps", stepsNotReturnedToOwnClaim, "steps with the same token again"},
		{"a repeated Acquire drops the steps", ownClaimDropsSteps, "steps with the same token again"},
		{"shorter steps win", shorterStepsWin, "steps in the wrong order"},
		{"an extend with shorter steps does not renew", shorterStepsRefused, "steps in the wrong order"},
		{"steps of a lost claim are forgotten", stepsOfLostClaimForgotten, "steps of a claim that the store lost"},
		{"steps are not fenced", stepsUnfenced, "steps too late"},
		{"steps outlive their run", stepsKeptAfterComplete, "steps of a finished run"},
		{"steps outlive a release", stepsKeptAfterRelease, "steps of a released run"},
		{"steps outlive their record", stepsKeptAfterExpiry, "steps of an expired run"},
		{"steps lose their last blanks", stepsTrimmed, "large steps, of any text"},
		{"steps end after 65,535 bytes", stepsCutShort, "large steps, of any text"},
		{"a look-up has no steps", lookUpWithoutSteps, "look up steps"},
		{"a list has steps", listWithSteps, "look up steps"},
	}
}
