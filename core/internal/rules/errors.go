package rules

import (
	"errors"
	"slices"

	"github.com/oncekey/oncekey/core/storage"
)

// ErrClaimTooSlow says that a lease may have ended before the store's reply arrived, and so
// another process may hold the key. A claim that is repeated restarts the lease.
var ErrClaimTooSlow = errors.New("oncekey: the store took longer for the claim than the policy's LockTTL")

// The rules about the errors of a store, a row each. Any other error says that the store
// could not do its work now.
var storeErrors = []storeError{
	{storage.ErrLeaseLost, false, true, false},
	{storage.ErrStoreFull, true, false, false},
	{storage.ErrUnreadable, false, false, true},
	{ErrClaimTooSlow, false, false, true},
	{storage.ErrCorruptRecord, true, false, true},
	{storage.ErrStoreForbidden, true, true, true},
	{storage.ErrNotStorable, true, true, true},
}

type storeError struct {
	err error
	// A claim that is repeated would get the error again.
	claimLasts bool
	// A settlement or renewal that is repeated would get the error again.
	writeLasts bool
	// No handler runs without the store, although the policy is FailOpen: one may have run
	// for the record, or the store is wrongly set up, which is no outage.
	closed bool
}

// ClaimLasts reports whether a claim that failed would fail again for the same reason.
func ClaimLasts(err error) bool {
	return anyOf(err, func(rule storeError) bool { return rule.claimLasts })
}

// WriteLasts reports whether a settlement or renewal that failed would fail again for the
// same reason.
func WriteLasts(err error) bool {
	return anyOf(err, func(rule storeError) bool { return rule.writeLasts })
}

// StaysClosed reports whether a request is refused after this error of its claim, even
// where the policy is FailOpen.
func StaysClosed(err error) bool {
	return anyOf(err, func(rule storeError) bool { return rule.closed })
}

// anyOf reports whether the error wraps one whose row says so.
func anyOf(err error, says func(storeError) bool) bool {
	return slices.ContainsFunc(storeErrors, func(rule storeError) bool { return says(rule) && errors.Is(err, rule.err) })
}
