package idemconnect

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/oncekey/oncekey/adapters/internal/outgoing"
	"github.com/oncekey/oncekey/adapters/internal/rpc"
	"github.com/oncekey/oncekey/core"
)

// ClientOptions are the options of a client. A zero field means the default.
type ClientOptions struct {
	// KeyField is a string field of requests that holds the key too, such as request_id
	// (AIP-155), for procedures whose policy has a KeyField. The interceptor sends the
	// field's value as the key, or else sends the key in the field. Messages without such
	// a field have the key in the metadata only. Default "": the metadata.
	KeyField string
	// MaxAttempts includes the first attempt. With 1, calls get keys and are never
	// repeated. Default 8.
	MaxAttempts int
	// MaxTime bounds all attempts and waits. An earlier deadline of the context takes
	// precedence. Default 2 minutes.
	MaxTime time.Duration
	// AttemptTimeout bounds one attempt. Default 30 seconds.
	AttemptTimeout time.Duration
	// Backoff is the wait after the first attempt, without jitter, and doubles with each
	// attempt. MaxBackoff is the longest wait. Default 200 milliseconds and 30 seconds.
	Backoff, MaxBackoff time.Duration
	// OnRetry is called before every wait, on the goroutine of the call. It must be safe
	// for concurrent use. Default none.
	OnRetry func(Retry)
}

// Retry describes a failed attempt that will be repeated.
type Retry struct {
	// Procedure is the called procedure.
	Procedure string
	// Key is the key of all attempts, or empty.
	Key string
	// Attempts is the number of attempts so far.
	Attempts int
	// Err is the error of the last attempt.
	Err error
	// Wait is the time until the next attempt.
	Wait time.Duration
}

// ClientInterceptor returns an interceptor of clients that gives each unary call a key, and
// repeats the call under the same key until a final response arrives. The rules are those
// of package httpclient:
//
//   - A key that the caller has put into the header Idempotency-Key, or into the KeyField
//     of the request, is kept. Within a
//     guarded handler the key is derived from the handler's key (see WithCall), and the header
//     Repeatability-First-Sent has the time of the handler's key, if it has one (see
//     policy.KeyAge). Otherwise the key is a UUID of version 7.
//   - A procedure with an idempotency_level in its .proto file gets no key, and is
//     repeated too.
//   - Unavailable, Unknown, Internal, DeadlineExceeded and Canceled are repeated while
//     the call's context lives, Aborted and ResourceExhausted with a RetryInfo. An error
//     of a guard is repeated exactly if it has a RetryInfo. Every other code is final, and
//     so is a replay: another attempt gets the same error.
//
// A wait is at least as long as the RetryInfo says, up to MaxBackoff. When the attempts
// or the time run out, the caller gets the last error unchanged. A server that ignores
// the key executes every attempt: give the interceptor to clients of guarded procedures
// only.
//
// Another interceptor that repeats calls belongs inside of this one: outside, each of its
// attempts would get a new key.
func ClientInterceptor(o ClientOptions) (connect.Interceptor, error) {
	limits := outgoing.Limits{MaxAttempts: o.MaxAttempts, MaxTime: o.MaxTime, AttemptTimeout: o.AttemptTimeout, Backoff: o.Backoff, MaxBackoff: o.MaxBackoff}
	client, err := rpc.NewClient(o.KeyField, limits, func(failed rpc.Retry) {
		if o.OnRetry != nil {
			o.OnRetry(Retry(failed))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("idemconnect: %w", err)
	}
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (response connect.AnyResponse, err error) {
			if !request.Spec().IsClient {
				return next(ctx, request)
			}
			procedure := request.Spec().Procedure
			given := request.Header().Get(core.KeyHeader)
			key, firstSent := given, ""
			if request.Spec().IdempotencyLevel == connect.IdempotencyUnknown {
				key, firstSent = client.KeyOf(ctx, request.Peer().Addr, procedure, given, request.Any())
			}
			// The caller may use the request for another call.
			if key != given {
				request.Header().Set(core.KeyHeader, key)
				defer request.Header().Del(core.KeyHeader)
			}
			if firstSent != "" && request.Header().Get(outgoing.FirstSentHeader) == "" {
				request.Header().Set(outgoing.FirstSentHeader, firstSent)
				defer request.Header().Del(outgoing.FirstSentHeader)
			}
			if field := client.EmptyKeyField(request.Any()); field != nil && key != "" {
				message := proto.Clone(request.Any().(proto.Message)) //nolint:forcetypeassert // a message has the field
				message.ProtoReflect().Set(field, protoreflect.ValueOfString(key))
				request = &filled{request, message}
			}
			attempt := func(ctx context.Context) (err error) {
				response, err = next(ctx, request)
				return err
			}
			err = client.Do(ctx, procedure, key, request.Any(), attempt, statusAtClient)
			return response, err
		}
	}), nil
}

// filled is a request whose message has its key. The caller may send the message in other calls
// meanwhile, which would find the key of this one in it.
type filled struct {
	connect.AnyRequest
	message proto.Message
}

// Any implements connect.AnyRequest.
func (f *filled) Any() any { return f.message }

// WithCall names a call, so that several calls of one guarded handler to one procedure
// get different keys. The name must be the same in every run of the handler: take the
// name from the data ("line-3"), not from a counter or a clock. Outside of a guarded
// handler the name has no effect, because every call there has its own key.
func WithCall(ctx context.Context, name string) context.Context { return outgoing.WithCall(ctx, name) }
