package redisstore

import (
	"math"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// duration reads a number of milliseconds. A number that no version writes is zero.
func duration(milliseconds int64) time.Duration {
	if milliseconds < 0 || milliseconds > math.MaxInt64/int64(time.Millisecond) {
		return 0
	}
	return time.Duration(milliseconds) * time.Millisecond
}

// date sets the times of a record, given the key's time to live. The value has
// durations only, because only the server's clock counts. So the times are counted
// back from the end of the record. Results of versions before have no durations.
func (s *stored) date(left time.Duration) {
	r := &s.record
	switch {
	case s.forgotten || left == noExpiry:
	case left == noKey:
		s.dateFromLine()
	case r.State == storage.Expired:
		r.Expires = time.Now().Round(0).Add(left)
	default:
		r.Expires = time.Now().Round(0).Add(left - s.remember)
		s.dateFrom(r.Expires.Add(-s.retain))
	}
}

// dateFromLine sets the times of a finished record by the writer's clock, because the
// key's time to live was not read. They are for display, so a second round trip for
// the server's clock would be too much.
func (s *stored) dateFromLine() {
	if s.retain == 0 || s.record.State == storage.InProgress {
		return
	}
	if at, err := time.Parse(time.RFC3339Nano, s.at); err == nil {
		s.record.Expires = at.Add(s.retain)
		s.dateFrom(at)
	}
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

func (l *line) setOrigin(o *storage.Origin) {
	l.Route, l.Holder, l.KeyHash, l.Trace = o.Route, o.Holder, o.KeyHash, o.Trace
}

func (l *line) origin() storage.Origin {
	return storage.Origin{Route: l.Route, Holder: l.Holder, KeyHash: l.KeyHash, Trace: l.Trace}
}

// originSize is about the size of the origin in the line.
func (l *line) originSize() int {
	const names = len(`,"route":"","holder":"","key_hash":"","trace":""`)
	if texts := len(l.Route) + len(l.Holder) + len(l.KeyHash) + len(l.Trace); texts > 0 {
		return names + texts
	}
	return 0
}
