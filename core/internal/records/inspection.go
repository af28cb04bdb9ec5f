package records

import (
	"errors"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// ErrRerunNotConfirmed refuses a Forget without storage.RerunIsSafe.
var ErrRerunNotConfirmed = errors.New("forget: pass storage.RerunIsSafe if the request may run again")

var errConfirmation = errors.New("pass storage.Happened or storage.DidNotHappen, after you have checked which of them is true")

// Happened reports whether a confirmation of Settle says that the operation happened. It
// returns an error for one that is not Settle's.
func Happened(confirmation storage.Confirmation) (bool, error) {
	if confirmation != storage.Happened && confirmation != storage.DidNotHappen {
		return false, errConfirmation
	}
	return confirmation == storage.Happened, nil
}

// Budget is the rest of a page's LookAt and Within.
type Budget struct {
	// Looked is the number of records that have been looked at.
	Looked int

	lookAt int
	until  time.Time
}

// Left returns how many more records may be looked at: none after the time is over.
func (b *Budget) Left() int {
	if !time.Now().Before(b.until) {
		return 0
	}
	return max(0, b.lookAt-b.Looked)
}

// Grow returns the size of the next batch after a batch of that size: twice as large, but
// no larger than half of the time left allows.
func (b *Budget) Grow(batch int, took time.Duration) int {
	inTime := float64(batch) * float64(time.Until(b.until)) / float64(2*max(took, 1))
	return max(1, min(2*batch, int(inTime)))
}

// NewBudget validates a call of List, fills the page's defaults in, and begins to count the
// time.
func NewBudget(filter *storage.Filter, page *storage.Page) (Budget, error) {
	if err := errors.Join(filter.Validate(), page.Validate()); err != nil {
		return Budget{}, err
	}
	return Budget{lookAt: page.LookAt, until: time.Now().Add(page.Within)}, nil
}
