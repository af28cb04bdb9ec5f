package outgoing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Limits bound the attempts of a call and the waits between them. A zero field means the
// default, which is that of package httpclient.
type Limits struct {
	MaxAttempts                                  int
	MaxTime, AttemptTimeout, Backoff, MaxBackoff time.Duration
}

// The defaults of Limits.
const (
	DefaultMaxAttempts    = 8
	DefaultMaxTime        = 2 * time.Minute
	DefaultAttemptTimeout = 30 * time.Second
	DefaultBackoff        = 200 * time.Millisecond
	DefaultMaxBackoff     = 30 * time.Second
)

// Complete fills in the defaults. The error names a negative field.
func (l Limits) Complete() (Limits, error) {
	if l.MaxAttempts < 0 {
		return l, fmt.Errorf("MaxAttempts is %d: give a number above zero, or zero for the default", l.MaxAttempts)
	}
	for _, field := range []struct {
		name string
		time time.Duration
	}{{"MaxTime", l.MaxTime}, {"AttemptTimeout", l.AttemptTimeout}, {"Backoff", l.Backoff}, {"MaxBackoff", l.MaxBackoff}} {
		if field.time < 0 {
			return l, fmt.Errorf("%s is %v: give a time above zero, or zero for the default", field.name, field.time)
		}
	}
	l.MaxAttempts = cmp.Or(l.MaxAttempts, DefaultMaxAttempts)
	l.MaxTime = cmp.Or(l.MaxTime, DefaultMaxTime)
	l.AttemptTimeout = cmp.Or(l.AttemptTimeout, DefaultAttemptTimeout)
	l.Backoff = cmp.Or(l.Backoff, DefaultBackoff)
	l.MaxBackoff = cmp.Or(l.MaxBackoff, DefaultMaxBackoff)
	if l.Backoff > l.MaxBackoff {
		return l, fmt.Errorf("the option Backoff is %v and MaxBackoff %v: give a longest wait that is not shorter", l.Backoff, l.MaxBackoff)
	}
	return l, nil
}

// Do makes attempts until one returns a final error or nil, or until the attempts or the
// time run out. It returns the last attempt's error unchanged. repeats reports whether an
// error is repeated, and the wait that the server asks for. notify is called before each
// wait. The limits must be complete.
func (l Limits) Do(ctx context.Context, attempt func(context.Context) error, repeats func(error) (asked time.Duration, again bool), notify func(sent int, err error, wait time.Duration)) error {
	var err error
	sent, deadline := 0, Deadline(ctx, time.Now(), l.MaxTime)
	l.Repeat(ctx, deadline, func() (int, bool) {
		within, cancel := context.WithTimeoutCause(ctx, min(l.AttemptTimeout, time.Until(deadline)), errAttemptTimeout)
		defer cancel()
		err = attempt(within)
		sent++
		return sent, err != nil
	}, func() (time.Duration, bool) {
		return repeats(err)
	}, func(wait time.Duration) {
		notify(sent, err, wait)
	})
	return err
}

// Repeat makes attempts until one is final, or until the attempts or the time run out.
// attempt returns the number of attempts so far, and whether its outcome may be repeated.
// repeats is called only where another attempt is possible: it decides about the outcome, and
// returns the wait that the server asks for. notify is called before each wait. Repeat reports
// whether the end of ctx has cut a wait off.
func (l Limits) Repeat(ctx context.Context, deadline time.Time, attempt func() (sent int, repeatable bool), repeats func() (asked time.Duration, again bool), notify func(wait time.Duration)) (cutOff bool) {
	for pauses := 0; ; pauses++ {
		sent, repeatable := attempt()
		if !repeatable || sent >= l.MaxAttempts || ctx.Err() != nil {
			return false
		}
		asked, again := repeats()
		if !again {
			return false
		}
		wait := pause(l.Backoff, l.MaxBackoff, pauses, asked)
		if !time.Now().Add(wait).Before(deadline) {
			return false
		}
		notify(wait)
		if !sleep(ctx, wait) {
			return true
		}
	}
}

// Deadline returns the time at which a call ends that may take so long.
func Deadline(ctx context.Context, begun time.Time, most time.Duration) time.Time {
	deadline := begun.Add(most)
	if own, has := ctx.Deadline(); has && own.Before(deadline) {
		return own
	}
	return deadline
}

var errAttemptTimeout = errors.New("oncekey: the attempt took too long")

// sleep waits, and reports false when ctx ends first.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
