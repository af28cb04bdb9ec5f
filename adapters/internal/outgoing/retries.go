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
	if shortest := min(l.MaxTime, l.AttemptTimeout, l.Backoff, l.MaxBackoff); l.MaxAttempts < 0 || shortest < 0 {
		return l, fmt.Errorf("MaxAttempts is %d, and the shortest of the times %v: give numbers and times above zero, or zero for the default", l.MaxAttempts, shortest)
	}
	l.MaxAttempts = cmp.Or(l.MaxAttempts, DefaultMaxAttempts)
	l.MaxTime = cmp.Or(l.MaxTime, DefaultMaxTime)
	l.AttemptTimeout = cmp.Or(l.AttemptTimeout, DefaultAttemptTimeout)
	l.Backoff = cmp.Or(l.Backoff, DefaultBackoff)
	l.MaxBackoff = cmp.Or(l.MaxBackoff, DefaultMaxBackoff)
	if l.Backoff > l.MaxBackoff {
		return l, fmt.Errorf("the option Backoff is %v and the MaxBackoff %v: give a longest wait that is not shorter", l.Backoff, l.MaxBackoff)
	}
	return l, nil
}

// Do makes attempts until one returns a final error or nil, or until the attempts or the
// time run out. It returns the last attempt's error unchanged. repeats reports whether an
// error is repeated, and the wait that the server asks for. notify is called before each
// wait. The limits must be complete.
func (l Limits) Do(ctx context.Context, attempt func(context.Context) error, repeats func(error) (asked time.Duration, again bool), notify func(sent int, err error, wait time.Duration)) error {
	deadline := time.Now().Add(l.MaxTime)
	if own, has := ctx.Deadline(); has && own.Before(deadline) {
		deadline = own
	}
	for sent := 1; ; sent++ {
		err := l.attempt(ctx, deadline, attempt)
		if err == nil || sent == l.MaxAttempts || ctx.Err() != nil {
			return err
		}
		asked, again := repeats(err)
		if !again {
			return err
		}
		wait := Pause(l.Backoff, l.MaxBackoff, sent-1, asked)
		if !time.Now().Add(wait).Before(deadline) {
			return err
		}
		notify(sent, err, wait)
		if !Sleep(ctx, wait) {
			return err
		}
	}
}

func (l Limits) attempt(ctx context.Context, deadline time.Time, attempt func(context.Context) error) error {
	if limit := time.Now().Add(l.AttemptTimeout); limit.Before(deadline) {
		deadline = limit
	}
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, errAttemptTimeout)
	defer cancel()
	return attempt(ctx)
}

var errAttemptTimeout = errors.New("oncekey: the attempt took too long")

// Sleep waits, and reports false when ctx ends first.
func Sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
