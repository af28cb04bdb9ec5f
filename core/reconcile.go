package core

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// ReconcileOptions are the options of Reconcile. A zero field means the default.
type ReconcileOptions struct {
	// After is how long a key has been abandoned, by the store's clock, before it is asked
	// about. Give more than the longest run of a handler, because a handler that still runs
	// then loses its lease. Default 15 minutes, the default of policy.MaxRun.
	After time.Duration
	// Every is the time between two searches for abandoned keys, which read the records of
	// the store (storage.Inspector.List). Default 1 minute.
	Every time.Duration
	// Backoff is the time from the first question about a key to the second. It doubles with
	// each further one, up to MaxBackoff. Default 1 minute and 1 hour.
	Backoff, MaxBackoff time.Duration
	// MaxAttempts is the attempt of a key after which Reconcile gives up. Operators settle
	// such keys (Inspector.Settle). Default 30.
	MaxAttempts uint64
	// FindTimeout bounds one call of the FindFunc. Default 30 seconds.
	FindTimeout time.Duration
	// Concurrency bounds the calls at a time. Default 4.
	Concurrency int
}

// complete fills in the defaults. The error names a field that is below zero.
func (o *ReconcileOptions) complete() error {
	for _, field := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{
		{"After", &o.After, policy.DefaultMaxRun},
		{"Every", &o.Every, time.Minute},
		{"Backoff", &o.Backoff, time.Minute},
		{"MaxBackoff", &o.MaxBackoff, time.Hour},
		{"FindTimeout", &o.FindTimeout, 30 * time.Second},
	} {
		if *field.value < 0 {
			return fmt.Errorf("oncekey: ReconcileOptions.%s is %v: give more than zero, or zero for the default", field.name, *field.value)
		}
		*field.value = cmp.Or(*field.value, field.usual)
	}
	if o.Concurrency < 0 {
		return fmt.Errorf("oncekey: ReconcileOptions.Concurrency is %d: give more than zero, or zero for the default", o.Concurrency)
	}
	o.Concurrency, o.MaxAttempts = cmp.Or(o.Concurrency, 4), cmp.Or(o.MaxAttempts, 30)
	return nil
}

// asker is the beginning of the holder's name in records that Reconcile has taken.
const asker = "reconciler "

// isDue reports whether it is time to ask about an abandoned key. After a run it waits until
// no handler can be at work. After a question it waits longer each time.
func (o *ReconcileOptions) isDue(r *storage.Record) bool {
	wait := o.After
	if strings.HasPrefix(r.Origin.Holder, asker) {
		wait = o.Backoff
		for attempt := uint64(2); attempt < r.Attempt && wait < o.MaxBackoff; attempt++ {
			wait *= 2
		}
		wait = min(wait, o.MaxBackoff)
	}
	return r.Abandoned() && r.Attempt < o.MaxAttempts && -r.LeaseLeft >= wait
}
