package storetest

import (
	"bytes"
	"errors"
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// maybeTooLarge is more than a store must keep, if its Config names no size that it
// refuses.
const maybeTooLarge = 2 << 20

// refusedCases are about bytes that a store can never keep.
var refusedCases = []testCase{
	{
		name: "a response that is too large",
		rule: "a response that the store can never keep is ErrNotStorable and changes no record, and then the outcome is kept " +
			"without the response: else its request runs twice",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			res := f.result(lease)
			res.Body = bytes.Repeat([]byte("x"), f.size())
			if !f.isRefused("Complete", f.store.Complete(f.Context(), lease, res)) {
				f.replays(lease, res)
				return
			}
			f.holds(lease)
			outcome := storage.Result{State: storage.Unreplayable, Status: res.Status, Retain: res.Retain}
			f.complete(lease, outcome)
			f.replays(lease, outcome)
		},
	},
	{
		name: "steps that are too large",
		rule: "steps that the store can never keep are ErrNotStorable and change no record: the lease can be renewed with the " +
			"steps before them",
		test: func(f *fixture) {
			lease := f.record(f.win(f.claim(), 1, false), "first\n")
			more := lease
			more.Steps += strings.Repeat("x", f.size())
			if !f.isRefused("Extend", f.store.Extend(f.Context(), more, f.long())) {
				f.hasSteps(f.find(f.claim()), more.Steps)
				return
			}
			f.holds(lease)
			f.extend(lease, 0)
			f.leasesSteps(f.win(f.takeOver(), 2, true), "first\n")
		},
	},
}

// size is that of a text which the store may refuse.
func (f *fixture) size() int {
	if f.tooLarge > 0 {
		return f.tooLarge
	}
	return maybeTooLarge
}

// isRefused reports whether a call was refused for good. It fails on other errors.
func (f *fixture) isRefused(method string, err error) bool {
	f.Helper()
	if err == nil && f.tooLarge > 0 {
		f.Fatalf("%s has kept %d bytes, and Config.TooLarge says that the store refuses them", method, f.tooLarge)
	}
	if err != nil && !errors.Is(err, storage.ErrNotStorable) {
		f.Fatalf("%s of %d bytes returned %v, want nil or an error that is %q", method, f.size(), err, storage.ErrNotStorable)
	}
	return err != nil
}
