package verify

import (
	"bytes"
	"fmt"
	"slices"
)

// Result is a judgement about a rule.
type Result string

// The results. Unknown is also that of a rule for which nothing speaks.
const (
	Kept    Result = "kept"
	Broken  Result = "broken"
	Unknown Result = "unknown"
)

// verdict is a result with its evidence.
type verdict struct {
	result   Result
	evidence string
}

func kept(format string, args ...any) verdict { return verdict{Kept, fmt.Sprintf(format, args...)} }

func broken(format string, args ...any) verdict { return verdict{Broken, fmt.Sprintf(format, args...)} }

func unknown(format string, args ...any) verdict {
	return verdict{Unknown, fmt.Sprintf(format, args...)}
}

// alone returns the exchange that had this payload under a key of its own, or nil.
func (s *Seen) alone(payload string) *Exchange {
	for _, one := range s.by[PayloadsAlone].Exchanges {
		if one.sent == payload {
			return one
		}
	}
	return nil
}

// refusesPayload reports whether the duplicates, whose new key is in order, all got this status: the server takes the
// payload only once, for example because it has a name that is taken.
func refusesPayload(s *Seen, status int) bool {
	duplicates := s.by[Duplicates]
	return duplicates != nil && len(duplicates.Exchanges) > 0 &&
		!slices.ContainsFunc(duplicates.Exchanges, func(one *Exchange) bool { return one.Status != status })
}

// runs returns how often the server has run the operation of a probe under one key, if that is known. Without
// a count of effects, different bodies without a mark are different runs, and equal ones are the same
// run if the server gives each run another body.
func (s *Seen) runs(o *Observation) (n int64, known bool) {
	if o.Counted {
		return o.Effects, true
	}
	unmarked, different := 0, make(map[string]bool)
	for _, one := range o.Exchanges {
		if !one.cut && one.succeeded() && !s.isReplay(one) {
			unmarked++
			different[string(one.Body)] = true
		}
	}
	switch {
	case o.Exchanges[0].cut: // whose body is not known
		return 1, unmarked == 0
	case len(different) > 1:
		return int64(len(different)), true
	default:
		return 1, unmarked < 2 || s.isDistinctive()
	}
}

// isDistinctive reports whether the server's runs under two keys had different bodies.
func (s *Seen) isDistinctive() bool {
	var before *Exchange
	for _, name := range []Probe{EqualRetry, MemberOrder, NumberSpelling, NullMember, OtherAfter} {
		o := s.by[name]
		if o == nil || o.Skipped != "" || len(o.Exchanges) == 0 || !o.Exchanges[0].succeeded() || s.isReplay(o.Exchanges[0]) {
			continue
		}
		if before != nil && !bytes.Equal(before.Body, o.Exchanges[0].Body) {
			return true
		}
		before = o.Exchanges[0]
	}
	return false
}

// marksReplays reports whether the server has marked the replay to the equal retry.
func (s *Seen) marksReplays() bool {
	all := s.by[EqualRetry].Exchanges
	return s.isReplay(all[len(all)-1])
}
