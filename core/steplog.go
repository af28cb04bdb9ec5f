package core

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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
	if line.isRecorded() {
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

// releasedSteps returns the steps of a released run that its record must keep for a
// retry: none without a recorded step. No step stays open, because the run has answered
// for all of them. A log that cannot be read is kept as it is.
func releasedSteps(steps string) string {
	log, err := readSteps(steps)
	switch {
	case err != nil:
		return steps
	case log == nil || len(log.recorded) == 0:
		return ""
	}
	for len(log.open) > 0 {
		log.add(stepLine{Step: log.open[0], Failed: true})
	}
	return log.text
}

// release ends a lease without a response. An uncertain run leaves its key abandoned, for
// OnAbandoned to decide. Otherwise the next request may run: the same one, if the run has
// recorded a step, and else any.
func (e *Engine) release(ctx context.Context, lease storage.Lease, uncertain bool) error {
	if uncertain {
		return e.store.Extend(ctx, lease, 0)
	}
	lease.Steps = releasedSteps(lease.Steps)
	return e.store.Release(ctx, lease)
}

// resume starts the run of the lease, with the steps of earlier attempts.
func (e *Engine) resume(ctx context.Context, a *admission) Decision {
	var err error
	if a.steps, err = readSteps(a.lease.Steps); err != nil {
		e.releaseClaim(a)
		return e.storeFailed(ctx, a, err)
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
