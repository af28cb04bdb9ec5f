package redisstore

import (
	"bytes"
	"context"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// snapshot is the value found under a key.
type snapshot struct {
	stored
	value []byte
	// exact: the value, its time to live and its response were read in one atomic step.
	exact bool
	// gone: the key expired between reading the value and its time to live.
	gone bool
}

// certain reports whether the snapshot is reliable. last is the previous snapshot, or
// nil. See claimOrLook.
func (s *snapshot) certain(last *snapshot) bool {
	if s.gone || s.exact || !s.record.Abandoned() {
		return !s.gone
	}
	return last != nil && last.record.Abandoned() && bytes.Equal(last.value, s.value)
}

// lookClosely reads a key and its response in one atomic step, and in a round trip of
// its own. If the key is gone, it returns the snapshot that it was given. Without a
// Remember it names one key, because a cluster refuses two of a slot that is moving.
func (s *Store) lookClosely(ctx context.Context, key string, seen *snapshot) (*snapshot, error) {
	keys := []string{s.prefix + key}
	if seen.remember > 0 {
		response, _ := s.responseKey(key)
		keys = append(keys, response)
	}
	reply, err := s.run(ctx, lookScript, keys).Slice()
	if isNil(err) {
		seen.gone = true
		return seen, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := lookExactly(reply)
	if err == nil && found.lost && seen.remember == 0 { // it has become a record with a Remember
		return s.lookClosely(ctx, key, found)
	}
	return found, err
}

// lookExactly decodes a script's reply: a value, its time to live, and perhaps its
// response.
func lookExactly(found []any) (*snapshot, error) {
	value, _ := found[0].(string)
	left, _ := found[1].(int64)
	var response []byte
	if text, is := found[len(found)-1].(string); is {
		response = []byte(text)
	}
	seen, err := look([]byte(value), lifeLeft(left), response)
	if err == nil {
		seen.exact = true
	}
	return seen, err
}

// look decodes a value, given the key's time to live, and the value's response if it
// has one.
func look(value []byte, left time.Duration, response []byte) (*snapshot, error) {
	seen := &snapshot{value: value}
	err := seen.decode(value)
	if err == nil && seen.apart {
		err = seen.join(response)
	}
	if err != nil {
		return nil, err
	}
	err = seen.clock(left)
	return seen, err
}

// doubtful reports whether only lookClosely can tell the record's state.
func (s *snapshot) doubtful(merged bool) bool {
	if s.exact {
		return false
	}
	return s.lost || s.gone && merged || s.record.State == storage.Expired && !s.apart
}

// clock sets the time left of the lease, and the times of the record, given the key's
// time to live.
func (s *snapshot) clock(left time.Duration) error {
	if s.remember > 0 && left >= 0 && left <= s.remember {
		s.bury()
	}
	s.date(left)
	if s.record.State != storage.InProgress {
		return nil
	}
	switch left {
	case noExpiry:
		return records.Corrupt("it is in progress, but has no expiry")
	case noKey:
		s.gone, s.record.LeaseLeft = true, briefLease
	default:
		s.record.LeaseLeft = min(left-s.afterLease(), s.lease)
		if s.afterLease() == 0 { // it is never abandoned, and PTTL is 0 in its last millisecond
			s.record.LeaseLeft = max(s.record.LeaseLeft, briefLease)
		}
	}
	return nil
}

// lifeLeft converts PTTL's reply to a duration, with go-redis's special values.
func lifeLeft(milliseconds int64) time.Duration {
	if milliseconds < 0 {
		return time.Duration(milliseconds) // noExpiry, noKey
	}
	return time.Duration(milliseconds) * time.Millisecond
}

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
