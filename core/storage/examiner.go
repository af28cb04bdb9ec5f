package storage

import "context"

// Examiner is a Store that can examine its own set-up: its server's settings, its
// rights, its schema. The interface is optional, and meant for operators. The engine
// never calls an Examiner while serving requests.
type Examiner interface {
	Store
	// Examine returns one Finding for each check, in a fixed order. A check that fails,
	// or that this process may not make, is a Finding too. Examine may write to the
	// store under a key of its own, and removes the key again.
	Examine(ctx context.Context) []Finding
}

// Finding is the result of one check of a store's set-up.
type Finding struct {
	// Check names the check in a few words, such as "eviction policy".
	Check string
	Grade Grade
	// Seen says which setting, right or figure the check saw.
	Seen string
	// Advice says how to mend it. Empty where Grade is Good.
	Advice string
}

// Grade says how much a Finding matters.
type Grade uint8

// The grades of a Finding. The zero Grade is not valid.
const (
	// Good: as it should be.
	Good Grade = iota + 1
	// Look: works, and may cost something. Seen and Advice say what.
	Look
	// Mend: a promise of the store does not hold, or will not under load.
	Mend
	// Skipped: the check could not be made. Advice says what it needs.
	Skipped
)

// String returns the grade's name: good, look, mend, skipped; "invalid" for anything
// else.
func (g Grade) String() string {
	switch g {
	case Good:
		return "good"
	case Look:
		return "look"
	case Mend:
		return "mend"
	case Skipped:
		return "skipped"
	default:
		return "invalid"
	}
}
