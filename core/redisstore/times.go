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
	if left < 0 || s.released { // noExpiry, noKey
		return
	}
	r := &s.record
	r.Expires = time.Now().Round(0).Add(left)
	if r.State == storage.Expired {
		return
	}
	r.Expires = r.Expires.Add(-s.remember)
	if s.retain == 0 {
		return
	}
	written := r.Expires.Add(-s.retain)
	r.Created = written.Add(-s.age)
	if r.State != storage.InProgress {
		r.Finished = written
	}
}

func (l *line) setOrigin(o storage.Origin) {
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
