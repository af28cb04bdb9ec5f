package core

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// stepLog is the log of a request's steps. The record of the run keeps its text, to
// which every attempt appends. Run.mu guards a stepLog.
type stepLog struct {
	// text has one JSON object a line. The first sent bytes are never taken back, because a
	// write that failed may still have reached the store.
	text     string
	sent     int
	recorded map[string]stepLine // by name: steps with a result or a permanent error
	open     []string            // steps that were begun and have no end
	called   map[string]bool     // the names that this run has used
	running  int                 // steps of this run that have not ended
	unknown  bool                // a step of this run has ended, and its outcome is unknown
}

// stepLine is one line of the log: the step has begun if only Step is set.
type stepLine struct {
	Step   string          `json:"step,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// Error is the text of a permanent error.
	Error *string `json:"error,omitempty"`
	// Failed: the function was not called, or returned an error that is not recorded.
	Failed bool `json:"failed,omitempty"`
	// Unconfirmed: the store did not confirm the line of the result.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// Released is the number of an attempt that has ended and released its key.
	Released uint64 `json:"released,omitempty"`
}

func (l *stepLine) isRecorded() bool { return l.Result != nil || l.Error != nil }

// encode returns the line as text. Names and errors with invalid UTF-8 are repaired.
func (l *stepLine) encode() string {
	encoded, err := json.Marshal(l)
	if err != nil { // impossible: Result is valid JSON
		panic(err)
	}
	return string(encoded) + "\n"
}

// readSteps returns the log of a record. A line of an unknown form is an error, because
// a newer version may have recorded a step with it.
func readSteps(text string) (*stepLog, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // a record without steps has no log
	}
	l := new(stepLog)
	for encoded := range strings.Lines(text) {
		var line stepLine
		decoder := json.NewDecoder(bytes.NewReader([]byte(encoded)))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&line); err != nil {
			return nil, fmt.Errorf("%w: its steps cannot be read: %w", storage.ErrCorruptRecord, err)
		}
		l.apply(line)
	}
	l.text, l.sent = text, len(text)
	return l, nil
}

// cut takes the lines back that the store certainly does not have. The caller makes the
// run uncertain if one of them was of a step that has run.
func (l *stepLog) cut() {
	before, err := readSteps(l.text[:l.sent])
	if err != nil { // impossible: the text was read, or written by add
		panic(err)
	}
	if before == nil {
		before = new(stepLog)
	}
	l.text, l.recorded, l.open = before.text, before.recorded, before.open
}

// add appends a line.
func (l *stepLog) add(line stepLine) {
	l.text += line.encode()
	l.apply(line)
}

func (l *stepLog) apply(line stepLine) {
	switch {
	case line.Released != 0:
		l.open = nil
		return
	case line.isRecorded():
		if l.recorded == nil {
			l.recorded = make(map[string]stepLine)
		}
		l.recorded[line.Step] = line
	}
	l.open = slices.DeleteFunc(l.open, func(name string) bool { return name == line.Step })
	if !line.isRecorded() && !line.Failed {
		l.open = append(l.open, line.Step)
	}
}

// cutOff returns the last step that has begun and has no end, or "".
func (l *stepLog) cutOff() string {
	if l == nil || len(l.open) == 0 {
		return ""
	}
	return l.open[len(l.open)-1]
}

// releasedBy reports whether a record was released by its latest attempt. The store
// regards its key as abandoned, and keeps its steps.
func releasedBy(attempt uint64, steps string) bool {
	return steps != "" && strings.HasSuffix(steps, releasedLine(attempt))
}

func releasedLine(attempt uint64) string {
	line := stepLine{Released: attempt}
	return line.encode()
}

// hasRecorded reports whether the log has a recorded step, or cannot be read.
func hasRecorded(steps string) bool {
	log, err := readSteps(steps)
	return err != nil || log != nil && len(log.recorded) > 0
}

// release ends a lease without a response.
//
//   - uncertain: the key is left abandoned, for OnAbandoned to decide.
//   - The request has recorded a step: the key is left abandoned too, so that only
//     the same request can claim it. Its last line says that the key was released.
//   - Otherwise the store forgets the key.
func (e *Engine) release(ctx context.Context, lease storage.Lease, uncertain bool) error {
	switch {
	case uncertain:
		return e.store.Extend(ctx, lease, 0)
	case hasRecorded(lease.Steps):
		lease.Steps += releasedLine(lease.Attempt)
		return e.store.Extend(ctx, lease, 0)
	default:
		return e.store.Release(ctx, lease)
	}
}

// isReleased reports whether the policy refuses abandoned keys, and the record of this
// request only looks abandoned: its latest attempt has released it.
func (a *admission) isReleased(record *storage.Record) bool {
	return a.route.policy.OnAbandoned.Refuses() && record.Abandoned() &&
		releasedBy(record.Attempt, record.Steps) && a.repeats(record)
}

// resume starts the run of the lease, with the steps of earlier attempts.
func (e *Engine) resume(ctx context.Context, a *admission) Decision {
	lease := &a.lease
	var err error
	if a.steps, err = readSteps(lease.Steps); err != nil {
		e.releaseClaim(a)
		return e.storeFailed(ctx, a, err)
	}
	if releasedBy(lease.Attempt-1, lease.Steps) {
		lease.TookOver = false // the attempt before has ended in order
	}
	if lease.TookOver && a.route.policy.OnAbandoned.Refuses() {
		// Between the two claims of decide, another attempt ran and was cut off.
		e.releaseClaim(a)
		e.report(ctx, a, event.Event{Result: event.LeaseExpired, Attempt: lease.Attempt - 1})
		return Decision{Problem: problem.New(problem.OutcomeUnknown, "")}
	}
	return e.start(ctx, a)
}

// hasUnknownStep reports whether the outcome of a step is unknown. A handler may return
// before its steps on other goroutines have ended, and their marks then come too late.
func (r *Run) hasUnknownStep() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps != nil && (r.steps.unknown || r.steps.running > 0)
}
