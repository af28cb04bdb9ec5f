package rules_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/rules"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// The decision about a request that does not hold the lease, for every record.
func TestDecide(t *testing.T) {
	t.Parallel()
	retry := rules.Asked{Repeats: true}
	for name, c := range map[string]struct {
		record storage.Record
		asked  rules.Asked
		want   string
	}{
		"completed":                {storage.Record{State: storage.Completed}, retry, ""},
		"failed":                   {storage.Record{State: storage.Failed}, retry, ""},
		"not kept":                 {storage.Record{State: storage.Unreplayable}, retry, problem.NotReplayable},
		"not kept, observing":      {storage.Record{State: storage.Unreplayable}, rules.Asked{Repeats: true, Observes: true}, ""},
		"expired":                  {storage.Record{State: storage.Expired, Status: 201}, retry, problem.KeyExpired},
		"expired while abandoned":  {storage.Record{State: storage.Expired}, retry, problem.OutcomeUnknown},
		"in progress":              {storage.Record{State: storage.InProgress, LeaseLeft: time.Second}, retry, problem.InProgress},
		"in progress, refusing":    {storage.Record{State: storage.InProgress, LeaseLeft: time.Second}, rules.Asked{Repeats: true, Refuses: true}, problem.InProgress},
		"abandoned, taken by one":  {storage.Record{State: storage.InProgress}, retry, problem.InProgress},
		"abandoned, refusing":      {storage.Record{State: storage.InProgress}, rules.Asked{Repeats: true, Refuses: true}, problem.OutcomeUnknown},
		"released, taken by one":   {storage.Record{State: storage.Released}, rules.Asked{Repeats: true, Refuses: true}, problem.InProgress},
		"another of a finished":    {storage.Record{State: storage.Completed}, rules.Asked{}, problem.KeyReused},
		"another of one expired":   {storage.Record{State: storage.Expired, Status: 201}, rules.Asked{}, problem.KeyReused},
		"another of one abandoned": {storage.Record{State: storage.InProgress}, rules.Asked{Refuses: true}, problem.KeyReused},
		"another of one released":  {storage.Record{State: storage.Released}, rules.Asked{}, problem.KeyReused},
	} {
		if got := rules.Decide(&c.record, c.asked); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Each error of a store, as the contract of package storage has it. Stores wrap them.
func TestErrorsOfStores(t *testing.T) {
	t.Parallel()
	for err, want := range map[error][3]bool{ // a claim lasts, a write lasts, FailOpen stays closed
		storage.ErrLeaseLost:      {false, true, false},
		storage.ErrStoreFull:      {true, false, false},
		storage.ErrUnreadable:     {false, false, true},
		storage.ErrCorruptRecord:  {true, false, true},
		storage.ErrStoreForbidden: {true, true, true},
		storage.ErrNotStorable:    {true, true, true},
		rules.ErrClaimTooSlow:     {false, false, true},
		errors.New("refused"):     {false, false, false},
	} {
		wrapped := fmt.Errorf("a store: %w", err)
		if got := [3]bool{rules.ClaimLasts(wrapped), rules.WriteLasts(wrapped), rules.StaysClosed(wrapped)}; got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
