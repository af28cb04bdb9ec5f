package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/adapters/internal/outgoing"
)

// Retries bounds the attempts of a call. A zero field means the default of package
// httpclient.
type Retries struct {
	MaxAttempts         int
	MaxTime             time.Duration
	AttemptTimeout      time.Duration
	Backoff, MaxBackoff time.Duration
	OnRetry             func(Retry)
}

// Retry describes a failed attempt that will be repeated.
type Retry struct {
	Procedure string
	Key       string
	Attempts  int
	Err       error
	Wait      time.Duration
}

// Client repeats calls. It is safe for concurrent use.
type Client struct{ Retries }

// NewClient fills in the defaults. The error names a negative field.
func NewClient(r Retries) (*Client, error) {
	if r.MaxAttempts < 0 || min(r.MaxTime, r.AttemptTimeout, r.Backoff, r.MaxBackoff) < 0 {
		return nil, fmt.Errorf("the retries are %+v: give numbers and times above zero, or zero for the default", r)
	}
	r.MaxAttempts = cmp.Or(r.MaxAttempts, httpclient.DefaultMaxAttempts)
	r.MaxTime = cmp.Or(r.MaxTime, httpclient.DefaultMaxTime)
	r.AttemptTimeout = cmp.Or(r.AttemptTimeout, httpclient.DefaultAttemptTimeout)
	r.Backoff = cmp.Or(r.Backoff, httpclient.DefaultBackoff)
	r.MaxBackoff = cmp.Or(r.MaxBackoff, httpclient.DefaultMaxBackoff)
	if r.Backoff > r.MaxBackoff {
		return nil, fmt.Errorf("the Backoff is %v and the MaxBackoff %v: give a longest wait that is not shorter", r.Backoff, r.MaxBackoff)
	}
	if r.OnRetry == nil {
		r.OnRetry = func(Retry) {}
	}
	return &Client{r}, nil
}

// NeedsKey reports whether a call gets a key. A procedure whose idempotency_level says
// that it is safe to repeat needs none.
func NeedsKey(procedure string) bool {
	method, err := describe(procedure)
	return err != nil || levelOf(method) == 0
}

// NewKey returns the key of a call to a procedure of a server.
func NewKey(ctx context.Context, server, procedure string) string {
	return outgoing.NewKey(ctx, "POST "+server+procedure)
}

// Do makes attempts until one returns a final error or nil, or until the attempts or the
// time run out. It returns the last attempt's error unchanged.
func (c *Client) Do(ctx context.Context, procedure, key string, attempt func(context.Context) error, statusOf func(error) *status.Status) error {
	deadline := time.Now().Add(c.MaxTime)
	if own, has := ctx.Deadline(); has && own.Before(deadline) {
		deadline = own
	}
	for sent := 1; ; sent++ {
		err := c.attempt(ctx, deadline, attempt)
		if err == nil || sent == c.MaxAttempts || ctx.Err() != nil {
			return err
		}
		asked, again := repeats(statusOf(err))
		wait := outgoing.Pause(c.Backoff, c.MaxBackoff, sent-1, asked)
		if !again || !time.Now().Add(wait).Before(deadline) {
			return err
		}
		c.OnRetry(Retry{Procedure: procedure, Key: key, Attempts: sent, Err: err, Wait: wait})
		if !sleep(ctx, wait) {
			return err
		}
	}
}

func (c *Client) attempt(ctx context.Context, deadline time.Time, attempt func(context.Context) error) error {
	if limit := time.Now().Add(c.AttemptTimeout); limit.Before(deadline) {
		deadline = limit
	}
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, errAttemptTimeout)
	defer cancel()
	return attempt(ctx)
}

var errAttemptTimeout = errors.New("oncekey: the attempt took too long")

// repeats reports whether a call is repeated after an error, and the wait that the
// server asks for. The codes are those of the HTTP statuses that package httpclient
// repeats. An error of a guard is repeated exactly if it has a RetryInfo.
func repeats(s *status.Status) (asked time.Duration, again bool) {
	retry, about := detailOf[*errdetails.RetryInfo](s), detailOf[*errdetails.ErrorInfo](s)
	switch code.Code(s.GetCode()) {
	case code.Code_UNAVAILABLE, code.Code_UNKNOWN, code.Code_INTERNAL, code.Code_DEADLINE_EXCEEDED, code.Code_CANCELLED:
		again = about.GetDomain() != Domain || retry != nil
	case code.Code_ABORTED, code.Code_RESOURCE_EXHAUSTED:
		again = retry != nil
	default:
		again = false
	}
	return retry.GetRetryDelay().AsDuration(), again
}

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
