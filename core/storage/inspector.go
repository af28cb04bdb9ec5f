package storage

import (
	"context"
	"time"
)

// Inspector lets operators read, settle and remove records. Every store of this module
// implements Inspector. The engine never calls an Inspector while serving requests.
type Inspector interface {
	// Lookup returns the record of a storage key (see Key), or nil when
	// there is none.
	Lookup(ctx context.Context, key string) (*Record, error)
	// List returns records that match the filter, and the cursor of the next page. It
	// looks at records until the page is full or its budget is spent, so one page can
	// hold fewer records than its limit, or none, before the last page. Records come in
	// no particular order.
	//
	// A record that matches from the first page to the last is listed at least once. The
	// entries have no Header, Body, Sketch and Steps: use Lookup. The store skips and logs
	// records that it cannot read. The store returns an error for a filter or a page that
	// is invalid (see Filter.Validate, Page.Validate), and for a cursor that it recognizes
	// as another store's.
	List(ctx context.Context, filter Filter, page Page) (Listing, error)
	// Settle ends an abandoned key for an operator who knows whether its run had its effect.
	// The record must be in progress under the attempt that the operator has seen, with a
	// lease that has ended. Otherwise Settle returns ErrNotAbandoned and changes no record.
	// The comparison and the change are one atomic step.
	//
	// With Happened the record becomes Unreplayable with StatusByHand. It expires when it
	// would have, and a Remember holds. Retries get an error and never run. With
	// DidNotHappen the key is released as by Store.Release without Steps, and the next
	// request runs with a higher attempt number. In both cases the holder of the old lease
	// gets ErrLeaseLost when it settles, while the store has a record of the key.
	Settle(ctx context.Context, key string, attempt uint64, confirmation Confirmation) error
	// Forget removes a record, so that the next request with its key runs. Pass
	// RerunIsSafe to confirm that a second run is safe. Forget reports whether there
	// was a record. A key that was released without Steps counts as no record, but its
	// attempt number is removed too. A holder whose record was removed may still settle.
	Forget(ctx context.Context, key string, confirmation Confirmation) (bool, error)
}

// Filter selects records of a list. The zero Filter selects all.
type Filter struct {
	// States selects records in one of these states. Empty: in every state.
	States []State
	// Abandoned selects records in progress whose lease has ended, and no others.
	// States is then empty.
	Abandoned bool
	// Route selects records with this Origin.Route, byte for byte. Empty: with any.
	Route string
	// OlderThan selects records that were Created at least this long ago, by the store's
	// clock. A record without a time of creation, such as a tombstone, is selected.
	OlderThan time.Duration
}

// Page says how much one call of List may read and return.
type Page struct {
	// Cursor is empty for the first page, and the Listing's Next for each later one.
	Cursor string
	// Limit is the largest number of records to return, from 1 to 1000.
	Limit int
	// LookAt is the number of records after which List stops looking. It may look at a
	// few more, so that it always advances. Zero: 20,000.
	LookAt int
	// Within is the time after which List stops looking. Zero: 2 seconds. List always
	// advances, however short Within is. A ctx that ends is an error, and not a page.
	Within time.Duration
}

// Listing is one page of a list.
type Listing struct {
	// Entries match the filter. There are at most as many as the page's Limit.
	Entries []Entry
	// Next is the cursor of the next page, and empty after the last page.
	Next string
	// LookedAt is how many records this call has looked at, matching or not.
	LookedAt int
}

// Entry is one record of a list.
type Entry struct {
	// Key is the storage key.
	Key string
	*Record
}

// StatusByHand is the status of a record that an operator has settled by Happened, and of
// its tombstone: the status of the operation's own response is not known. HTTP has no such
// status.
const StatusByHand = 999

// Confirmation is a statement that Settle and Forget require of the operator.
type Confirmation string

// The confirmations of Inspector.Settle and Inspector.Forget.
const (
	// RerunIsSafe is Forget's only confirmation: it states that the operation had no
	// effect, or that the effect may happen again.
	RerunIsSafe Confirmation = "I have checked that running this request again is safe"
	// Happened is for Settle: it states that the operation had its effect.
	Happened Confirmation = "I have checked that the operation happened"
	// DidNotHappen is for Settle: it states that the operation had no effect, and will
	// not have one.
	DidNotHappen Confirmation = "I have checked that the operation did not happen"
)
