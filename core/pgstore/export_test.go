package pgstore

import "time"

// AlwaysBatch lets single calls be batches too.
func AlwaysBatch(s *Store) { s.claims.Always, s.completions.Always = true, true }

// HoldLanes lets calls wait as if statements were in flight, until all so many calls
// wait. They are then one batch, as far as its bounds allow.
func (s *Store) HoldLanes(calls int) (release func()) {
	claims, completions := s.claims.Hold(), s.completions.Hold()
	return func() {
		for s.Waiting() < calls {
			<-time.After(time.Millisecond)
		}
		claims()
		completions()
	}
}

// Waiting is how many calls wait.
func (s *Store) Waiting() int { return s.claims.Waiting() + s.completions.Waiting() }

// ClaimsWrote reports whether the last statement of claims was a batch that has written.
func (s *Store) ClaimsWrote() bool { return s.claims.Wrote() }
