package core_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

// A policy that a check refuses is refused where it is declared, and every fault is named.
func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	required := func(p *policy.Policy) error {
		defer func() { p.Methods = nil }() // a check that changes the policy changes a copy
		if !p.Required {
			return &policy.FieldError{Field: "Required", Value: false, Want: "true"}
		}
		return nil
	}
	long := func(p *policy.Policy) error {
		if p.TTL < time.Hour {
			return &policy.FieldError{Field: "TTL", Value: p.TTL, Want: "at least an hour"}
		}
		return nil
	}
	engine := engineOf(t, memstore.New(), core.WithPolicyCheck(required), core.WithPolicyCheck(long))
	if route, err := engine.Route(); err != nil || !route.Guards(http.MethodPost) {
		t.Errorf("the default policy is refused or changed: %v", err)
	}
	_, err := engine.Route(policy.Required(false), policy.TTL(time.Minute))
	const want = "policy: Required is false: it must be true\npolicy: TTL is 1m0s: it must be at least an hour"
	if err == nil || err.Error() != want {
		t.Errorf("got the error %v, want %s", err, want)
	}
	if _, is := errors.AsType[*policy.FieldError](err); !is {
		t.Errorf("the error %v has no FieldError", err)
	}
}

// A call of Do without a policy is none of a check's routes.
func TestPolicyCheckIsNotAskedAboutCalls(t *testing.T) {
	t.Parallel()
	never := func(*policy.Policy) error { return errors.New("never") }
	engine := engineOf(t, memstore.New(), core.WithPolicyCheck(never))
	got, _, err := core.Do(t.Context(), engine, core.Call{Scope: "s", Name: "n", Key: "k"}, func(context.Context) (int, error) { return 1, nil })
	if got != 1 || err != nil {
		t.Errorf("Do returned %d and %v", got, err)
	}
}
