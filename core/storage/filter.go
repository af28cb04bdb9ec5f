package storage

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The limits of a page.
const (
	maximumLimit  = 1000
	defaultLookAt = 20_000
	defaultWithin = 2 * time.Second
)

// Validate returns an error that names the invalid field, its value and the expected
// form.
func (f *Filter) Validate() error {
	for _, state := range f.States {
		if _, known := ParseState(state.String()); !known {
			return fmt.Errorf("oncekey: list records in state %d: want a state of package storage", state)
		}
	}
	if f.Abandoned && len(f.States) > 0 {
		return errors.New("oncekey: list abandoned records: States must be empty, because an abandoned record is in progress")
	}
	if f.OlderThan < 0 {
		return fmt.Errorf("oncekey: list records older than %s: want zero or more", f.OlderThan)
	}
	return nil
}

// Matches reports whether the filter selects a record. Now is the time by the clock of
// the record's store.
func (f *Filter) Matches(r *Record, now time.Time) bool {
	switch {
	case f.Abandoned && !r.Abandoned(), len(f.States) > 0 && !slices.Contains(f.States, r.State), f.Route != "" && f.Route != r.Origin.Route:
		return false
	}
	return f.OlderThan == 0 || r.Created.IsZero() || now.Sub(r.Created) >= f.OlderThan
}

// Validate fills the page's defaults in, and returns an error that names the invalid
// field, its value and the expected form.
func (p *Page) Validate() error {
	switch {
	case p.Limit < 1 || p.Limit > maximumLimit:
		return fmt.Errorf("oncekey: list %d records: want a Limit from 1 to %d", p.Limit, maximumLimit)
	case p.LookAt < 0:
		return fmt.Errorf("oncekey: look at %d records: want a LookAt of zero or more", p.LookAt)
	case p.Within < 0:
		return fmt.Errorf("oncekey: list within %s: want zero or more", p.Within)
	}
	if p.LookAt == 0 {
		p.LookAt = defaultLookAt
	}
	if p.Within == 0 {
		p.Within = defaultWithin
	}
	return nil
}
