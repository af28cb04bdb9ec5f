package redisstore

import (
	"bytes"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// A value has a head, fields, and the body of a response or the steps of a run. The scripts
// read the head:
//
//	mark      8  "oncekey" and the version of the form
//	token    16
//	attempt   8  big endian
//	state     1  a storage.State
//	remember     milliseconds, seven bits a byte, the lowest first
//	size         of the body or the steps, written like remember
//
// The fields begin with a mask of two bytes. It has a bit for each field, in the order of
// stored.layout: only the fields of set bits have bytes. A later version may add fields at the
// end under the same version, if a program that skips them is right. Any other change takes
// another version, which this version refuses.
const (
	mark = "oncekey" + string(rune(version))
	// version of the form.
	version = 1
	// prefixSize is the size of the mark, the token and the attempt: all values of one attempt
	// begin with the same bytes. plainSize is the size of a head without Remember and body.
	prefixSize, stateAt, plainSize = 32, 32, 35

	minStatus, maxStatus = 100, 999
)

// stored is the content of a value.
type stored struct {
	record   storage.Record
	token    storage.Token
	tookOver bool
	// forgotten: the key was released without steps. Only its attempt number and its
	// fingerprint are left, and the record has no state.
	forgotten bool
	// age is the time from the claim to the writing of the value.
	lease, retain, remember, age time.Duration
	// written is the time of writing by the writer's clock, for display. It also makes each
	// claim's bytes unique, which undoClaim relies on.
	written time.Time
	size    int
	// apart: the response of the record has a key of its own. lost: it was not found
	// there.
	apart, lost bool
}

// layout is the order of a value's parts, for the writer and the reader. No other place knows
// it, but the scripts know the head.
func (s *stored) layout(c *codec) {
	r := &s.record
	c.raw(s.token[:])
	c.attempt(&r.Attempt)
	c.state(&r.State)
	c.duration(&s.remember)
	c.number(&s.size)

	c.fields(uint64(s.size))
	c.fingerprint(&r.Fingerprint)
	c.digest(&r.Digest)
	c.flag(&s.tookOver)
	c.duration(&s.lease)
	c.duration(&s.retain)
	c.duration(&s.age)
	c.origin(&r.Origin)
	c.time(&s.written)
	c.number(&r.Status)
	if c.listing { // a list shows no more
		return
	}
	c.header(&r.Header)
	c.bytes(&r.Sketch)
}

// afterLease is how much longer the key lives than its lease.
func (s *stored) afterLease() time.Duration { return s.remember + s.retain - s.lease }

func isFinished(state storage.State) bool {
	return state >= storage.Completed && state <= storage.Unreplayable
}

// fill sets the parts that come from a lease.
func (s *stored) fill(l *storage.Lease, state storage.State, at time.Time) {
	r := &s.record
	s.token, s.written, s.age = l.Token, at, l.Age
	r.Attempt, r.State, r.Fingerprint, r.Digest, r.Origin = l.Attempt, state, l.Fingerprint, l.Digest, l.Origin
}

func encodeClaim(l *storage.Lease, at time.Time) []byte {
	var s stored
	s.fill(l, storage.InProgress, at)
	s.tookOver, s.lease, s.retain, s.remember = l.TookOver, l.LockTTL, l.Retain, l.Remember
	return encode(&s, l.Steps)
}

// encodeReleased keeps a released record, or only its attempt number if the lease has no
// steps.
func encodeReleased(l storage.Lease, at time.Time) []byte {
	var s stored
	if l.Steps == "" {
		l.Digest, l.Origin, l.Age, l.Retain = storage.Digest{}, storage.Origin{}, 0, 0
	}
	s.fill(&l, storage.Released, at)
	s.retain = l.Retain
	return encode(&s, l.Steps)
}

// encodeResult returns the whole record of a result without a Remember, or the response of
// a result with one.
func encodeResult(l storage.Lease, res storage.Result, at time.Time) []byte {
	var s stored
	s.fill(&l, res.State, at)
	s.retain, s.record.Status, s.record.Sketch = res.Retain, res.Status, res.Sketch
	if res.State == storage.Unreplayable {
		return encode(&s, "")
	}
	s.record.Header = res.Header
	return encode(&s, res.Body)
}

// encodeRemembered returns the short value of a result with a Remember.
func encodeRemembered(l storage.Lease, res storage.Result) []byte {
	var s stored
	l.Origin, l.Age = storage.Origin{}, 0
	s.fill(&l, res.State, time.Time{})
	s.remember, s.record.Status = res.Remember, res.Status
	return encode(&s, "")
}

// attemptPrefix is the beginning of all values of one attempt.
func attemptPrefix(l *storage.Lease) []byte {
	c := codec{rest: append(make([]byte, 0, prefixSize), mark...)}
	attempt := l.Attempt
	c.raw(l.Token[:])
	c.attempt(&attempt)
	return c.rest
}

// writers are codecs with some room, so that a value is one allocation of its size.
var writers = sync.Pool{New: func() any { return &codec{rest: make([]byte, 0, usualRoom)} }}

// usualRoom is more than most values have before their body, and mostRoom is the most that writers keep.
const usualRoom, mostRoom = 512, 4 << 10

func encode[Body string | []byte](s *stored, body Body) []byte {
	s.size = len(body)
	c, _ := writers.Get().(*codec)
	*c = codec{rest: append(c.rest[:0], mark...)}
	s.layout(c)
	c.end()
	value := append(append(make([]byte, 0, len(c.rest)+len(body)), c.rest...), body...)
	if cap(c.rest) <= mostRoom {
		writers.Put(c)
	}
	return value
}

// decode reads a value, which must not change later: the record's body and texts are parts of the
// value.
func decode(value []byte) (s stored, err error) {
	err = s.decode(value)
	return s, err
}

// decode sets the zero value to a decoded value.
func (s *stored) decode(value []byte) error {
	c := codec{reading: true}
	if err := s.read(value, &c); err != nil {
		return err
	}
	if c.cut || !c.end() {
		return records.Corrupt("its %d bytes are not as many as it has been written with", len(value))
	}
	return s.interpret(value[len(value)-s.size:])
}

// decodeBeginning reads the fields before the header from the beginning of a value. It returns
// false when the beginning is too short.
func decodeBeginning(start []byte) (s stored, enough bool, err error) {
	c := codec{reading: true, listing: true}
	if err := s.read(start, &c); err != nil || c.cut {
		return s, !c.cut, err
	}
	err = s.interpret(nil)
	return s, true, err
}

func (s *stored) read(value []byte, c *codec) error {
	const name = len(mark) - 1
	switch {
	case !bytes.HasPrefix(value, []byte(mark[:name])) || len(value) == name:
		return records.Corrupt("it does not begin as a record: %s", records.Excerpt(string(value)))
	case value[name] != version:
		return records.Corrupt("its format is version %d, this is version %d", value[name], version)
	}
	c.rest = value[len(mark):]
	s.layout(c)
	if c.invalid {
		return records.Corrupt("one of its numbers is too large")
	}
	return nil
}

// isRecord reports whether a value begins as a record of this version.
func isRecord(value string) bool {
	return len(value) >= plainSize && value[:len(mark)] == mark
}

// isForgotten reports whether only an attempt number is left of a record, by the beginning
// of its value.
func isForgotten(value string) bool {
	return isRecord(value) && value[stateAt:plainSize] == string(rune(storage.Released))+"\x00\x00"
}

// mayBeApart reports whether a value, or its beginning, is of a record whose response has a key of its own.
func mayBeApart(value string) bool {
	return isRecord(value) && isFinished(storage.State(value[stateAt])) && value[stateAt+1] != 0
}

// interpret checks the fields that were read, given the body.
func (s *stored) interpret(body []byte) error {
	r := &s.record
	if r.Attempt < 1 {
		return records.Corrupt("its attempt number is 0")
	}
	switch r.State {
	case storage.InProgress:
		if s.retain < max(s.lease, time.Millisecond) || s.remember+s.retain < 0 {
			return records.Corrupt("its lease is %s, and it is kept for %s and remembered for %s", s.lease, s.retain, s.remember)
		}
		r.Steps = string(body)
	case storage.Released:
		r.Steps = string(body)
		if s.size == 0 {
			s.forgotten, r.State = true, 0
		}
	case storage.Completed, storage.Failed, storage.Unreplayable:
		if r.Status < minStatus || r.Status > maxStatus {
			return records.Corrupt("its status is %d", r.Status)
		}
		if s.apart = s.remember > 0; !s.apart {
			r.Body = body
		}
	default:
		return records.Corrupt("its state is %d", r.State)
	}
	return nil
}
