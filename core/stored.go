package core

import (
	"net/http"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/internal/hopbyhop"
	"github.com/oncekey/oncekey/policy"
)

// storedResult is what is kept of an answer.
func storedResult(p *policy.Policy, answer Answer) Result {
	if answer.Status == 0 {
		answer.Status = http.StatusOK
	}
	result := Result{State: Completed, Status: answer.Status, Retain: p.TTL}
	if answer.Status >= http.StatusBadRequest {
		result.State = Failed
	}
	header := storedHeader(p, answer.Header)
	size := int64(len(answer.Body))
	for _, field := range header {
		size += int64(len(field.Name) + len(field.Value))
	}
	if answer.Unreplayable || size > p.MaxResponseBytes {
		result.State = Unreplayable
		return result
	}
	result.Header, result.Body = header, answer.Body
	return result
}

// storedHeader leaves out what belongs to one connection, one moment or one
// browser, unless the policy keeps it.
func storedHeader(p *policy.Policy, header Header) Header {
	nominated := connectionOptions(header)
	dropped := func(f Field) bool {
		return !isStored(p, f.Name) || !f.isValid() || nominated != "" && nominates(nominated, f.Name)
	}
	if !slices.ContainsFunc(header, dropped) {
		return header
	}
	return slices.DeleteFunc(slices.Clone(header), dropped)
}

// connectionOptions returns the values of the Connection fields, joined. They name
// fields that are for one connection as well: RFC 9110, section 7.6.1.
func connectionOptions(header Header) (options string) {
	for _, f := range header {
		if strings.EqualFold(f.Name, "Connection") {
			options += f.Value + ","
		}
	}
	return options
}

// nominates reports whether a list of connection options has the name.
func nominates(options, name string) bool {
	for option := range strings.SplitSeq(options, ",") {
		if strings.EqualFold(strings.TrimSpace(option), strings.TrimPrefix(name, http.TrailerPrefix)) {
			return true
		}
	}
	return false
}

func isStored(p *policy.Policy, name string) bool {
	name = http.CanonicalHeaderKey(strings.TrimPrefix(name, http.TrailerPrefix))
	if name != "Date" && name != "Set-Cookie" {
		return !hopbyhop.Has(name)
	}
	return slices.ContainsFunc(p.KeepHeaders, func(keep string) bool { return http.CanonicalHeaderKey(keep) == name })
}

// resultStored names what the run's answer was stored as; or would have been,
// where the run is only observed.
func (r *Run) resultStored(as State) EventResult {
	switch {
	case as == Unreplayable && !r.wouldKeep:
		return ResultUnreplayable
	case as == Failed, as == Unreplayable && r.storing.Status >= http.StatusBadRequest:
		return ResultFailed
	default:
		return ResultCompleted
	}
}
