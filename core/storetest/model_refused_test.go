package storetest

import (
	"errors"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// largest is the size that the model keeps.
const largest = maybeTooLarge - 1

// refusal is the error of a call with so many bytes.
func (m *model) refusal(size int) error {
	switch {
	case size <= largest:
		return nil
	case m.bug == refusalIsAnyError:
		return errors.New("data too long")
	default:
		return storage.ErrNotStorable
	}
}

// refuse changes what a refused call must not change.
func (m *model) refuse(l storage.Lease) {
	e := m.records[l.Key]
	switch {
	case e == nil:
	case m.bug == refusalAbandons:
		e.leaseEnd = time.Now()
	case m.bug == refusalFinishes:
		e.State = storage.Completed
	}
}
