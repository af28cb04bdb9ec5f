package explore

import (
	"fmt"
	"net/http"
	"slices"
)

// class is the effect of a run on its key.
type class uint8

// The classes.
const (
	unended  class = iota // the handler has not ended
	keeps                 // the response is stored
	releases              // the key is released
	abandons              // the key is left abandoned: the outcome is uncertain
)

var classNames = [...]string{unended: "has not ended", keeps: "keeps its response", releases: "releases its key", abandons: "is uncertain"}

// class decides by the documentation, and not by the engine's own functions.
func (r *run) class(p *Plan) class {
	s := r.stopped
	if s == nil {
		return unended
	}
	if s.has(Streamed) && p.keepsStream(s) {
		return keeps
	}
	c := p.classOf(s)
	if c == releases && r.tookOver() && !r.cleared() {
		return abandons // the outcome of the earlier attempt is still unknown
	}
	return c
}

// keepsStream reports whether a streamed response was stored before it left. Otherwise
// the end of the handler decides.
func (p *Plan) keepsStream(s *Fact) bool {
	left := *s
	left.Flags &^= Panicked
	return p.classOf(&left) == keeps
}

// keeps reports whether the handler's outcome is stored.
func (r *run) keeps(p *Plan) bool { return r.class(p) == keeps }

// cleared reports whether the RecoverFunc found no effect of earlier attempts.
func (r *run) cleared() bool { return r.looked != nil && r.looked.Source < 0 }

// classOf is the class of a handler's end.
func (p *Plan) classOf(s *Fact) class {
	status := s.Status
	switch {
	case s.has(Executed):
		return keeps
	case s.has(Uncertain), s.has(DuringStep):
		return abandons
	case s.has(Retryable):
		return releases
	case s.has(Panicked):
		status = http.StatusInternalServerError
	case s.has(Silent):
		status = http.StatusServiceUnavailable
	}
	if listed := p.Policy.listed(status); listed != unended {
		return listed
	}
	broken := status >= http.StatusInternalServerError
	switch {
	case broken && p.Policy.Abandoned != Reexecute:
		return abandons
	case broken && p.Policy.Keep5xx && !p.panics(InClassifier) && !s.has(Panicked) && !s.has(Silent):
		return keeps
	case broken, slices.Contains([]int{401, 407, 408, 425, 429}, status):
		return releases
	case p.Policy.OnlySuccess && status/100 != 2:
		return releases
	default:
		return keeps
	}
}

// listed is the class of a status in the policy's lists, or unended. A status counts
// before its class.
func (p *Policy) listed(status int) class {
	text := fmt.Sprint(status)
	for _, entry := range []string{text, text[:1] + "xx"} {
		switch {
		case slices.Contains(p.Uncertain, entry):
			return abandons
		case slices.Contains(p.Keep, entry):
			return keeps
		case slices.Contains(p.Release, entry):
			return releases
		}
	}
	return unended
}
