package core

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// checkAge notes whether the request's key is too old to run, where the policy has a
// KeyAge, or returns an error that names the place of the key to the client. h is the
// request's header, or nil where a request has none.
func (i *identity) checkAge(place string, h http.Header) error {
	limit := i.route.policy.KeyAge
	if limit == 0 || i.request.Key == "" {
		return nil
	}
	age, err := wire.AgeOfKey(i.request.Key, place, i.route.policy.KeyFormat, h)
	i.tooOld = err == nil && age >= limit
	return err
}

// checkAgeOf is checkAge for a request of HTTP.
func (i *identity) checkAgeOf(h http.Header) *problem.Problem {
	err := i.checkAge(cmp.Or(i.route.policy.KeyField, KeyHeader), h)
	if err == nil {
		return nil
	}
	refusal := problem.New(problem.KeyInvalid, err.Error())
	refusal.Detail = "Send a key that has the time of its making, by a clock that is right: " + wire.KeysWithTime(i.route.policy.KeyFormat, h) + "."
	return refusal
}

// allowsKey reports whether the policy allows the key of a retry, by its format and its
// time. A call of Do has any format, and no header.
func (i *identity) allowsKey(h http.Header) bool {
	if i.request.Method == storage.MethodCall {
		return i.checkAge("", nil) == nil
	}
	return i.route.policy.KeyFormat.Allows(i.request.Key) && i.checkAge("", h) == nil
}

// keyTooOld returns the problem for a key that is too old and has no record. Why the text
// differs from that of a tombstone: there may never have been an attempt.
func (i *identity) keyTooOld() *problem.Problem {
	refusal := problem.New(problem.KeyExpired, "")
	refusal.Detail = fmt.Sprintf("This Idempotency-Key is older than %v, and no response is kept for it: look up its result before you send it with a new key.", i.route.policy.KeyAge)
	return refusal
}
