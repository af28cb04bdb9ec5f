// Package steps has the log of a request's steps (core.Step): the text that the record of
// the run keeps, to which every attempt appends.
package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// Log is the log of a request's steps. The zero value is an empty log. A Log is not safe
// for concurrent use.
type Log struct {
	// text has one JSON object a line. The first sent bytes are never taken back, because a
	// write that failed may still have reached the store.
	text     string
	sent     int
	recorded map[string]Line // by name: steps with a result or a permanent error
	open     []string        // steps that were begun and have no end
}

// Line is one line of a Log: the step has begun if only Step is set.
type Line struct {
	Step   string          `json:"step,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// Error is the text of a permanent error.
	Error *string `json:"error,omitempty"`
	// Failed: the function was not called, or returned an error that is not recorded.
	Failed bool `json:"failed,omitempty"`
}

func (l *Line) isRecorded() bool { return l.Result != nil || l.Error != nil }

// encode returns the line as text. Names and errors with invalid UTF-8 are repaired.
func (l *Line) encode() string {
	encoded, err := json.Marshal(l)
	if err != nil { // impossible: Result is valid JSON
		panic(err)
	}
	return string(encoded) + "\n"
}

// Read returns the log of a record. A line of an unknown form is an error that wraps
// storage.ErrCorruptRecord, because a newer version may have recorded a step with it.
func Read(text string) (*Log, error) {
	l := new(Log)
	for encoded := range strings.Lines(text) {
		var line Line
		decoder := json.NewDecoder(strings.NewReader(encoded))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&line)
		if err == nil && (line.Step == "" || encoded[decoder.InputOffset():] != "\n") {
			err = errors.New("a line is not one named step")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: its steps cannot be read: %w", storage.ErrCorruptRecord, err)
		}
		l.apply(line)
	}
	l.text, l.sent = text, len(text)
	return l, nil
}

// Text returns the log for the record.
func (l *Log) Text() string { return l.text }

// SizeWith returns the size of the text with a further line.
func (l *Log) SizeWith(line Line) int { return len(l.text) + len(line.encode()) }

// Add appends a line.
func (l *Log) Add(line Line) {
	l.text += line.encode()
	l.apply(line)
}

func (l *Log) apply(line Line) {
	if line.isRecorded() {
		if l.recorded == nil {
			l.recorded = make(map[string]Line)
		}
		l.recorded[line.Step] = line
	}
	l.open = slices.DeleteFunc(l.open, func(name string) bool { return name == line.Step })
	if !line.isRecorded() && !line.Failed {
		l.open = append(l.open, line.Step)
	}
}

// Sent notes that the store was sent the first size bytes of the text.
func (l *Log) Sent(size int) { l.sent = size }

// Cut takes the lines back that the store certainly does not have, and reports whether
// there are any.
func (l *Log) Cut() bool {
	if len(l.text) == l.sent {
		return false
	}
	before, err := Read(l.text[:l.sent])
	if err != nil { // impossible: the text was read, or written by Add
		panic(err)
	}
	*l = *before
	return true
}

// Recorded returns the line with a step's result or permanent error, if there is one.
func (l *Log) Recorded(name string) (Line, bool) {
	line, found := l.recorded[name]
	return line, found
}

// Kept returns the text of the recorded steps alone, or "". A key that is released keeps it.
func (l *Log) Kept() string {
	if len(l.recorded) == 0 {
		return ""
	}
	var kept strings.Builder
	for encoded := range strings.Lines(l.text) {
		var line Line
		if err := json.Unmarshal([]byte(encoded), &line); err == nil && line.isRecorded() {
			kept.WriteString(encoded)
		}
	}
	return kept.String()
}

// Names returns the names of the recorded steps, sorted, and of those that have begun and
// have no end, in order.
func (l *Log) Names() (recorded, open []string) {
	return slices.Sorted(maps.Keys(l.recorded)), slices.Clone(l.open)
}

// CutOff returns the last step that has begun and has no end, or "".
func (l *Log) CutOff() string {
	if len(l.open) == 0 {
		return ""
	}
	return l.open[len(l.open)-1]
}
