package storage

import "context"

// Inspector lets operators read and remove records. Every store of this module
// implements Inspector. The engine never calls an Inspector while serving requests.
type Inspector interface {
	// Lookup returns the record of a storage key (see Key), or nil when
	// there is none.
	Lookup(ctx context.Context, key string) (*Record, error)
	// List returns a page of records in one state, and the cursor of the next page.
	// Pass an empty cursor for the first page; next is empty after the last page. A
	// page may hold fewer records than limit, or none, before the last page. Limit is
	// from 1 to 1000. Records come in no particular order.
	//
	// A record that keeps the state from the first page to the last is listed at
	// least once. The entries have no Header, Body, Sketch and Steps: use Lookup. The
	// store skips and logs records that it cannot read. The store returns an error
	// for a cursor that it recognizes as another store's.
	List(ctx context.Context, state State, cursor string, limit int) (page []Entry, next string, err error)
	// Forget removes a record, so that the next request with its key runs. Pass
	// RerunIsSafe to confirm that a second run is safe. Forget reports whether there
	// was a record. A released key counts as no record, but its attempt number is
	// removed too. A holder whose record was removed may still settle.
	Forget(ctx context.Context, key string, word Word) (bool, error)
}

// Entry is one record of a list.
type Entry struct {
	// Key is the storage key.
	Key string
	*Record
}

// Word is a confirmation that Forget requires.
type Word string

// RerunIsSafe is the only Word. It confirms that the operation had no effect, or
// that the effect may happen again.
const RerunIsSafe Word = "I have checked that running this request again is safe"
