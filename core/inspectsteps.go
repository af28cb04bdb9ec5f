package core

import (
	"github.com/oncekey/oncekey/core/internal/steps"
	"github.com/oncekey/oncekey/core/storage"
)

// StepState is one step of a record, see Step.
type StepState struct {
	Name string
	// Recorded says that the step has ended, and that a further attempt gets its result.
	// Otherwise the step has begun: it runs, or it was cut off and its outcome is not known.
	Recorded bool
}

// Steps returns the steps of a record in progress or released, without their results: first the
// recorded ones by name, then those that have begun, in order. A record that is settled has
// none, and neither has nil. The error wraps storage.ErrCorruptRecord.
func (i *Inspector) Steps(record *storage.Record) ([]StepState, error) {
	if record == nil {
		return nil, nil
	}
	log, err := steps.Read(record.Steps)
	if err != nil {
		return nil, err
	}
	var states []StepState
	recorded, open := log.Names()
	for i, name := range append(recorded, open...) {
		states = append(states, StepState{name, i < len(recorded)})
	}
	return states, nil
}
