package redisstore

import (
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// date sets the times of a record, given the key's time to live. The value has
// durations only, because only the server's clock counts. So the times are counted
// back from the end of the record.
func (s *stored) date(left time.Duration) {
	r := &s.record
	switch {
	case s.forgotten || left == noExpiry:
	case left == noKey:
		s.dateByWriter()
	case r.State == storage.Expired:
		r.Expires = time.Now().Round(0).Add(left)
	default:
		r.Expires = time.Now().Round(0).Add(left - s.remember)
		s.dateFrom(r.Expires.Add(-s.retain))
	}
}

// dateByWriter sets the times of a finished record by the writer's clock, because the
// key's time to live was not read. They are for display, so a second round trip for
// the server's clock would be too much.
func (s *stored) dateByWriter() {
	if s.retain == 0 || s.written.IsZero() || s.record.State == storage.InProgress {
		return
	}
	s.record.Expires = s.written.Add(s.retain)
	s.dateFrom(s.written)
}

// dateFrom sets the times before the end, given the time of writing.
func (s *stored) dateFrom(written time.Time) {
	if s.retain == 0 {
		return
	}
	s.record.Created = written.Add(-s.age)
	if s.record.State != storage.InProgress && s.record.State != storage.Released {
		s.record.Finished = written
	}
}
