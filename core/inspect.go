package core

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/storage"
)

// Inspector gives operators access to the records of an engine. It does no more than the
// store's own storage.Inspector, and reports each change by hand as an event. An Inspector
// is safe for concurrent use. Package adapters/inspector shows one as a web page.
type Inspector struct {
	shared    *shared
	defaults  *Route // for a retry without a route
	records   storage.Inspector
	inspected event.Subject // of events about changes by hand
}

// ByHand names the person who inspects or changes a record, and the reason. Both texts are
// in the event, so put no customer data into the reason.
type ByHand struct {
	// Operator is the person's name. Required.
	Operator string
	// Reason is required by Settle and Forget, for example a ticket's number: up to
	// MaxReason bytes.
	Reason string
}

// MaxReason is the most bytes of ByHand.Reason, because every log line, span and remembered
// event of the change has the text.
const MaxReason = 1000

func (by ByHand) validate(reason bool) error {
	switch {
	case strings.TrimSpace(by.Operator) == "":
		return errors.New("oncekey: ByHand.Operator is empty: give the name of the person")
	case reason && strings.TrimSpace(by.Reason) == "":
		return errors.New("oncekey: ByHand.Reason is empty: say why, for example by a ticket's number")
	case len(by.Reason) > MaxReason:
		return fmt.Errorf("oncekey: ByHand.Reason has %d bytes: give at most %d, for example a ticket's number", len(by.Reason), MaxReason)
	}
	return nil
}

// Lookup returns the record of a storage key (see Engine.StorageKey), or nil when there is
// none. Do not show its Body: see Reveal.
func (i *Inspector) Lookup(ctx context.Context, key string) (record *storage.Record, err error) {
	defer panicked.ToError("Store", &err)
	return i.records.Lookup(ctx, key)
}

// Reveal is Lookup for an operator who reads the stored response. It reports the event
// revealed.
func (i *Inspector) Reveal(ctx context.Context, key string, by ByHand) (*storage.Record, error) {
	if err := by.validate(false); err != nil {
		return nil, err
	}
	record, err := i.Lookup(ctx, key)
	if record != nil && err == nil {
		i.report(ctx, event.Revealed, key, record, by)
	}
	return record, err
}

// List returns one page of the records that match a filter, see storage.Inspector.
func (i *Inspector) List(ctx context.Context, filter storage.Filter, page storage.Page) (listing storage.Listing, err error) {
	defer panicked.ToError("Store", &err)
	return i.records.List(ctx, filter, page)
}

// Examine returns the findings of the store's storage.Examiner. It returns false for a
// store without one. A panic of the Examiner is a finding too.
func (i *Inspector) Examine(ctx context.Context) ([]storage.Finding, bool) {
	examiner, ok := i.shared.ledger.Store().(storage.Examiner)
	if !ok {
		return nil, false
	}
	findings, err := examine(ctx, examiner)
	if err != nil {
		findings = []storage.Finding{examination.Skipped("set-up", err.Error(), "mend the store's Examine")}
	}
	return findings, true
}

func examine(ctx context.Context, examiner storage.Examiner) (findings []storage.Finding, err error) {
	defer panicked.ToError("Store", &err)
	return examiner.Examine(ctx), nil
}

// Settle ends an abandoned key as an operator has found out, see storage.Inspector, and
// reports the event settled_by_hand. The error wraps storage.ErrNotAbandoned where the key
// is not abandoned under that attempt, also while this process has a response that waits
// for the store.
func (i *Inspector) Settle(ctx context.Context, key string, attempt uint64, confirmation storage.Confirmation, by ByHand) error {
	if err := by.validate(true); err != nil {
		return err
	}
	if i.shared.ledger.Has(key) {
		return fmt.Errorf("%w: this process holds its run", storage.ErrNotAbandoned)
	}
	record, err := i.Lookup(ctx, key)
	if err != nil {
		return err
	}
	if record == nil {
		return fmt.Errorf("%w: it has no record", storage.ErrNotAbandoned)
	}
	if err := i.settle(ctx, key, attempt, confirmation); err != nil {
		return err
	}
	i.report(ctx, event.SettledByHand, key, record, by)
	return nil
}

func (i *Inspector) settle(ctx context.Context, key string, attempt uint64, confirmation storage.Confirmation) (err error) {
	defer panicked.ToError("Store", &err)
	return i.records.Settle(ctx, key, attempt, confirmation)
}

// ErrStillRunning is returned by Inspector.Forget for a key whose lease has not ended.
var ErrStillRunning = errors.New("oncekey: the key's lease has not ended: its handler may be running")

// Forget removes a record, so that the next request with its key runs, and reports the
// event forgotten. It reports whether there was a record. The record must be of the
// attempt that the operator has seen; otherwise the error wraps storage.ErrNotAbandoned.
// The error wraps ErrStillRunning for a record in progress whose lease has not ended. Both
// checks come before the removal, and not in one step with it: for an abandoned key call
// Settle.
func (i *Inspector) Forget(ctx context.Context, key string, attempt uint64, confirmation storage.Confirmation, by ByHand) (bool, error) {
	if err := by.validate(true); err != nil {
		return false, err
	}
	record, err := i.Lookup(ctx, key)
	switch {
	case err != nil:
		return false, err
	case record == nil:
		return false, nil
	case i.shared.ledger.Has(key), record.State == storage.InProgress && !record.Abandoned():
		return false, ErrStillRunning
	case record.Attempt != attempt:
		return false, fmt.Errorf("%w: its record is of attempt %d", storage.ErrNotAbandoned, record.Attempt)
	}
	removed, err := i.forget(ctx, key, confirmation)
	if removed && err == nil {
		i.report(ctx, event.Forgotten, key, record, by)
	}
	return removed, err
}

func (i *Inspector) forget(ctx context.Context, key string, confirmation storage.Confirmation) (removed bool, err error) {
	defer panicked.ToError("Store", &err)
	return i.records.Forget(ctx, key, confirmation)
}

func (i *Inspector) report(ctx context.Context, result event.Result, key string, record *storage.Record, by ByHand) {
	i.shared.observer.Observe(ctx, &event.Event{
		Result: result, Route: record.Origin.Route, Record: key, Attempt: record.Attempt,
		Operator: by.Operator, Reason: by.Reason, Subject: &i.inspected,
	})
}

// Store names the package of the engine's store, such as "redisstore".
func (i *Inspector) Store() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", i.shared.ledger.Store()), "*"), ".")
	return name
}

// Instance returns the name of this process (WithInstance).
func (i *Inspector) Instance() string { return i.shared.instance }
