package storage

import "context"

// Inspector is what operators ask of a store. Every store of this module has
// it; none of its methods is on a request's way.
type Inspector interface {
	// Lookup returns the record of a storage key (see Key), or nil when
	// there is none.
	Lookup(ctx context.Context, key string) (*Record, error)
	// List returns a page of records in one state, in no particular order, and
	// the cursor of the next page, which is empty after the last. The first page
	// has an empty cursor. A page may hold fewer than limit, or none, and still
	// have a next one. Limit is from 1 to 1000.
	//
	// A record that is there, in that state, from the first page to the last is
	// listed, perhaps more than once. The entries have no Header, no Body
	// and no Sketch: Lookup has them. A record that cannot be read is passed by, and the store
	// logs it. A cursor that the store can tell is not its own is an error.
	List(ctx context.Context, state State, cursor string, limit int) (page []Entry, next string, err error)
	// Forget removes a record, so that the next request with its key runs. The
	// caller gives its word that a second run is safe. It reports whether there
	// was a record; a released key counts as none, but its attempt number goes
	// too. A holder whose lease was forgotten may still settle.
	Forget(ctx context.Context, key string, word Word) (bool, error)
}

// Entry is one record of a list.
type Entry struct {
	// Key is the storage key.
	Key string
	*Record
}

// Word is what a caller must say to make a store forget a record.
type Word string

// RerunIsSafe is the only Word: the caller has made sure that nothing happened
// under the key, or that it may happen again.
const RerunIsSafe Word = "I have checked that running this request again is safe"
