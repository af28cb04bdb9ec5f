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
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/adapters/internal/outgoing"
)

// ClientOptions are the options of both adapters. A zero field means the default of
// package httpclient.
type ClientOptions struct {
	KeyField            string
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
type Client struct{ ClientOptions }

// NewClient fills in the defaults. The error names a negative field.
func NewClient(r ClientOptions) (*Client, error) {
	if r.MaxAttempts < 0 || min(r.MaxTime, r.AttemptTimeout, r.Backoff, r.MaxBackoff) < 0 {
		return nil, fmt.Errorf("MaxAttempts is %d, and the shortest of the times %v: give numbers and times above zero, or zero for the default", r.MaxAttempts, min(r.MaxTime, r.AttemptTimeout, r.Backoff, r.MaxBackoff))
	}
	r.MaxAttempts = cmp.Or(r.MaxAttempts, httpclient.DefaultMaxAttempts)
	r.MaxTime = cmp.Or(r.MaxTime, httpclient.DefaultMaxTime)
	r.AttemptTimeout = cmp.Or(r.AttemptTimeout, httpclient.DefaultAttemptTimeout)
	r.Backoff = cmp.Or(r.Backoff, httpclient.DefaultBackoff)
	r.MaxBackoff = cmp.Or(r.MaxBackoff, httpclient.DefaultMaxBackoff)
	if r.Backoff > r.MaxBackoff {
		return nil, fmt.Errorf("the option Backoff is %v and the MaxBackoff %v: give a longest wait that is not shorter", r.Backoff, r.MaxBackoff)
	}
	if r.OnRetry == nil {
		r.OnRetry = func(Retry) {}
	}
	return &Client{r}, nil
}

// KeyOf returns the key of a call, or "" for a call without one: the caller's key in the
// metadata or in the KeyField of the message, or else a new key.
func (c *Client) KeyOf(ctx context.Context, server, procedure, given string, message any) string {
	if given != "" {
		return given
	}
	if m, field := c.keyField(message); field != nil && m.Has(field) {
		return m.Get(field).String()
	}
	if isRepeatable(procedure) {
		return ""
	}
	return outgoing.NewKey(ctx, "POST "+server+procedure)
}

// EmptyKeyField returns the KeyField of a message that has none yet, or nil.
func (c *Client) EmptyKeyField(message any) protoreflect.FieldDescriptor {
	m, field := c.keyField(message)
	if field == nil || m.Has(field) {
		return nil
	}
	return field
}

func (c *Client) keyField(message any) (protoreflect.Message, protoreflect.FieldDescriptor) {
	m, is := message.(proto.Message)
	if !is || c.KeyField == "" {
		return nil, nil
	}
	field := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(c.KeyField))
	if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() {
		return nil, nil
	}
	return m.ProtoReflect(), field
}

// Do makes attempts until one returns a final error or nil, or until the attempts or the
// time run out. It returns the last attempt's error unchanged. statusOf returns the status of
// an error, or nil for a replay: another attempt gets it again.
func (c *Client) Do(ctx context.Context, procedure, key string, message any, attempt func(context.Context) error, statusOf func(error) *status.Status) error {
	deadline := time.Now().Add(c.MaxTime)
	if own, has := ctx.Deadline(); has && own.Before(deadline) {
		deadline = own
	}
	for sent := 1; ; sent++ {
		err := c.attempt(ctx, deadline, attempt)
		if err == nil || sent == c.MaxAttempts || ctx.Err() != nil {
			return err
		}
		failed := statusOf(err)
		asked, again := repeats(failed)
		if failed.GetCode() == int32(code.Code_INTERNAL) && !isEncodable(message) {
			return err // by this client, in every attempt
		}
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

func isEncodable(message any) bool {
	m, is := message.(proto.Message)
	if !is {
		return true // another codec
	}
	_, err := proto.Marshal(m)
	return err == nil
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
