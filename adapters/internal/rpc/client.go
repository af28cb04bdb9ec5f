package rpc

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/oncekey/oncekey/adapters/internal/outgoing"
)

// Retry describes a failed attempt that will be repeated.
type Retry struct {
	Procedure string
	Key       string
	Attempts  int
	Err       error
	Wait      time.Duration
}

// Client repeats calls. It is safe for concurrent use.
type Client struct {
	field   string // KeyField of both adapters' ClientOptions
	limits  outgoing.Limits
	onRetry func(Retry)
}

// NewClient fills in the defaults of the limits. The error names a negative one.
func NewClient(keyField string, limits outgoing.Limits, onRetry func(Retry)) (*Client, error) {
	limits, err := limits.Complete()
	return &Client{keyField, limits, onRetry}, err
}

// KeyOf returns the key of a call, or "" for a call without one: the caller's key in the
// metadata or in the KeyField of the message, or else a new key, with the firstSent of
// outgoing.NewKey.
func (c *Client) KeyOf(ctx context.Context, server, procedure, given string, message any) (key, firstSent string) {
	if given != "" {
		return given, ""
	}
	if m, field := c.keyField(message); field != nil && m.Has(field) {
		return m.Get(field).String(), ""
	}
	if isRepeatable(procedure) {
		return "", ""
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
	if !is || c.field == "" {
		return nil, nil
	}
	field := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(c.field))
	if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() {
		return nil, nil
	}
	return m.ProtoReflect(), field
}

// Do makes attempts until one returns a final error or nil, or until the attempts or the
// time run out. It returns the last attempt's error unchanged. statusOf returns the status of
// an error, or nil for one that another attempt gets again, such as a replay.
func (c *Client) Do(ctx context.Context, procedure, key string, message any, attempt func(context.Context) error, statusOf func(error) *status.Status) error {
	return c.limits.Do(ctx, attempt, func(err error) (time.Duration, bool) {
		failed := statusOf(err)
		asked, again := repeats(failed)
		if failed.GetCode() == int32(code.Code_INTERNAL) && !isEncodable(message) {
			again = false // by this client, in every attempt
		}
		return asked, again
	}, func(sent int, err error, wait time.Duration) {
		c.onRetry(Retry{Procedure: procedure, Key: key, Attempts: sent, Err: err, Wait: wait})
	})
}

// repeats reports whether a call is repeated after an error, and the wait that the
// server asks for. The codes are those of the HTTP statuses that package httpclient
// repeats. An error of a guard is repeated exactly if it has a RetryInfo.
func repeats(s *status.Status) (asked time.Duration, again bool) {
	retry, about := DetailOf[*errdetails.RetryInfo](s), DetailOf[*errdetails.ErrorInfo](s)
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
