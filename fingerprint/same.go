package fingerprint

import "slices"

// Same names the members of the request that have the same value as in the sketch, by the
// rules of Differences. Members whose names may not be shown are left out.
func (r *Reading) Same(sketch []byte, key [16]byte) (names []string) {
	if !isSketch(sketch) {
		return nil
	}
	same := sameMembers{comparer: &r.comparer}
	same.comparer.begin(sketch[sketchHeader:], &r.survey)
	r.survey.begin(key, &same)
	r.surveyQuery()
	r.surveyBody(int(sketch[1]))
	r.comparer.end()
	slices.Sort(same.names)
	return same.names
}

// sameMembers collects the members that a comparer does not name.
type sameMembers struct {
	*comparer
	names []string
}

func (s *sameMembers) member(t tags) bool {
	named := s.named + s.others
	s.comparer.member(t)
	if s.named+s.others != named || len(s.names) == maxMembers {
		return true
	}
	if name := s.survey.name(); name != "" && !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
	return true
}
