package storetest

import (
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// The bugs of steps.
const (
	stepsForgotten             bug = "steps are forgotten"
	stepsAppended              bug = "steps are appended to steps"
	stepsNotInRecord           bug = "a record in progress has no steps"
	stepsNotReturnedToTakeOver bug = "a take-over gets no steps"
	stepsNotReturnedToOwnClaim bug = "a repeated Acquire gets no steps"
	extendByZeroForgetsSteps   bug = "an extend by zero forgets the steps"
	takeOverDropsSteps         bug = "a take-over drops the steps"
	ownClaimDropsSteps         bug = "a repeated Acquire drops the steps"
	shorterStepsWin            bug = "shorter steps win"
	shorterStepsRefused        bug = "an extend with shorter steps does not renew"
	stepsOfLostClaimForgotten  bug = "steps of a lost claim are forgotten"
	stepsUnfenced              bug = "steps are not fenced"
	stepsKeptAfterComplete     bug = "steps outlive their run"
	stepsKeptAfterRelease      bug = "steps outlive a release"
	stepsKeptAfterExpiry       bug = "steps outlive their record"
	stepsTrimmed               bug = "steps lose their last blanks"
	stepsCutShort              bug = "steps end after 65,535 bytes"
	lookUpWithoutSteps         bug = "a look-up has no steps"
	listWithSteps              bug = "a list has steps"
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
