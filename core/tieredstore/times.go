package tieredstore

import (
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// A refilled record has the times of the refill in the hot tier. The durable record's
// times are therefore written into its Origin, after the trace. Operators read the
// durable tier, so only this package reads the hot tier's Origin.
const (
	// timesMark stands between the trace and the times.
	timesMark = " times:"
	// timesBase is the base of the microseconds of a time. No digits mean no time.
	timesBase = 36
	// maxTrace is the maximum size of Origin.Trace.
	maxTrace = 100
)

// withTimes adds times to an origin that has none. A trace that leaves too little
// space is dropped.
func withTimes(o storage.Origin, times ...time.Time) storage.Origin {
	if strings.Contains(o.Trace, timesMark) {
		return o
	}
	digits := make([]string, len(times))
	for i, t := range times {
		if !t.IsZero() {
			digits[i] = strconv.FormatInt(t.UnixMicro(), timesBase)
		}
	}
	text := timesMark + strings.Join(digits, ",")
	if len(o.Trace)+len(text) > maxTrace {
		o.Trace = ""
	}
	o.Trace += text
	return o
}

// original returns a record of the hot tier with the times of the durable record.
func original(hot *storage.Record) *storage.Record {
	trace, text, refilled := strings.Cut(hot.Origin.Trace, timesMark)
	if !refilled {
		return hot // Complete has written it at the time of the durable record
	}
	r := *hot
	r.Origin.Trace = trace
	r.Created, r.Finished, r.Expires = time.Time{}, time.Time{}, time.Time{}
	times := []*time.Time{&r.Created, &r.Finished, &r.Expires}
	for i, digits := range strings.Split(text, ",") {
		if microseconds, err := strconv.ParseInt(digits, timesBase, 64); err == nil && i < len(times) {
			*times[i] = time.UnixMicro(microseconds).UTC()
		}
	}
	return &r
}
