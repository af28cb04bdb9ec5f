package core

import (
	"context"
	"time"

	"github.com/oncekey/oncekey/policy"
)

// Lost is an abandoned key, as a FindFunc sees it. It is not known yet whether its
// operation happened. Keys and scopes of clients are not stored, so Lost has none.
type Lost struct {
	// Record is the storage key of its record.
	Record string
	// Route is the route's pattern, or the function's or tool's name.
	Route string
	// Step names the step that was cut off (see policy.Abandoned), or is empty.
	Step string
	// Attempt is the number of the attempt that was abandoned last. Each call of a FindFunc
	// counts as an attempt too.
	Attempt uint64
	// Created is the time of that attempt's claim, Holder its process (after "reconciler " for a call of a FindFunc), and Trace its trace.
	Created       time.Time
	Holder, Trace string
}

// DerivedKey returns the key that core.DeriveKey returned in the runs of this record.
func (l *Lost) DerivedKey(name string) string { return DerivedKey(l.Record, name) }

// Finding is the answer of a FindFunc. The zero Finding is AskAgain.
type Finding struct {
	kind     findingKind
	response policy.Response
}

type findingKind string

const (
	unknown      findingKind = ""
	responded    findingKind = "response"
	happened     findingKind = "happened"
	didNotHappen findingKind = "did not happen"
)

var (
	// AskAgain says that the outcome is not known yet. The key stays abandoned.
	AskAgain = Finding{}
	// Happened says that the operation happened. Retries get 409 not_replayable.
	Happened = Finding{kind: happened}
	// DidNotHappen says that the operation did not happen, and will not: of a handler of
	// several steps, the one that was cut off. The key is released with its recorded steps,
	// so that a retry runs.
	DidNotHappen = Finding{kind: didNotHappen}
)

// Responded says that the operation happened, and how to respond to retries. The status is
// from 200 to 999.
func Responded(response policy.Response) Finding { return Finding{responded, response} }

// FindFunc finds out how an abandoned operation ended, for example at a payment provider
// under lost.DerivedKey("charge"). Its ctx ends with FindTimeout, with the lease
// and with Reconcile's context. An error counts as AskAgain, and so does a panic. It is
// called for a key by one process at a time, and must be safe for concurrent use. It must
// return when its ctx ends: until then it takes one of the Concurrency places of its process,
// and Reconcile waits for it.
type FindFunc func(ctx context.Context, lost Lost) (Finding, error)
