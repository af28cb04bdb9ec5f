package tieredstore

import (
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// A refilled record has the attempt number and the times of the refill in the hot tier.
// The durable record's are therefore written into its Origin, after the trace. Operators
// read the durable tier, so only this package reads the hot tier's Origin.
const (
	// runMark stands between the trace and the numbers of the run: the attempt, then the
	// times in microseconds. No digits mean no time.
	runMark = " run:"
	// runBase is the base of the numbers.
	runBase = 36
	// maxTrace is the maximum size of Origin.Trace.
	maxTrace = 100
)

// withRun adds the attempt number and the times of a run to an origin that has none. A
// trace that leaves too little space is dropped.
func withRun(o storage.Origin, attempt uint64, times ...time.Time) storage.Origin {
	if strings.Contains(o.Trace, runMark) {
		return o
	}
	numbers := []string{strconv.FormatUint(attempt, runBase)}
	for _, t := range times {
		digits := ""
		if !t.IsZero() {
			digits = strconv.FormatInt(t.UnixMicro(), runBase)
		}
		numbers = append(numbers, digits)
	}
	text := runMark + strings.Join(numbers, ",")
	if len(o.Trace)+len(text) > maxTrace {
		o.Trace = ""
	}
	o.Trace += text
	return o
}

// original returns a record of the hot tier with the numbers of the durable record.
func original(hot *storage.Record) *storage.Record {
	trace, text, refilled := strings.Cut(hot.Origin.Trace, runMark)
	if !refilled {
		return hot // Complete has written it at the time of the durable record
	}
	r := *hot
	r.Origin.Trace = trace
	r.Created, r.Finished, r.Expires = time.Time{}, time.Time{}, time.Time{}
	attempt, text, _ := strings.Cut(text, ",")
	if number, err := strconv.ParseUint(attempt, runBase, 64); err == nil {
		r.Attempt = number
	}
	times := []*time.Time{&r.Created, &r.Finished, &r.Expires}
	for i, digits := range strings.Split(text, ",") {
		if microseconds, err := strconv.ParseInt(digits, runBase, 64); err == nil && i < len(times) {
			*times[i] = time.UnixMicro(microseconds).UTC()
		}
	}
	return &r
}
