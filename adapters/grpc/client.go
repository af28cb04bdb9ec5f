package idemgrpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
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
	// Procedure is the full method name.
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

// UnaryClientInterceptor returns an interceptor that gives each call a key, and repeats
// the call under the same key until a final response arrives. The rules are those of
// package httpclient:
//
//   - A key that the caller has put into the metadata idempotency-key, or into the
//     KeyField of the request, is kept. Within a
//     guarded handler the key is derived from the handler's key (see WithCall), and the metadata
//     repeatability-first-sent has the time of the handler's key, if it has one (see
//     policy.KeyAge). Otherwise the key is a UUID of version 7.
//   - A procedure with an idempotency_level in its .proto file gets no key, and is
//     repeated too.
//   - Unavailable, Unknown, Internal, DeadlineExceeded and Canceled are repeated while
//     the call's context lives, Aborted and ResourceExhausted with a RetryInfo. An error
//     of a guard is repeated exactly if it has a RetryInfo. Every other code is final, and
//     so are a replay and a closed connection: another attempt gets the same error.
//
// A wait is at least as long as the RetryInfo says, up to MaxBackoff. When the attempts
// or the time run out, the caller gets the last error unchanged. A server that ignores
// the key executes every attempt: give the interceptor to connections with guarded
// procedures only.
//
// Another interceptor that repeats calls belongs inside of this one: outside, each of its
// attempts would get a new key.
func UnaryClientInterceptor(o ClientOptions) (grpc.UnaryClientInterceptor, error) {
	limits := outgoing.Limits{MaxAttempts: o.MaxAttempts, MaxTime: o.MaxTime, AttemptTimeout: o.AttemptTimeout, Backoff: o.Backoff, MaxBackoff: o.MaxBackoff}
	client, err := rpc.NewClient(o.KeyField, limits, func(failed rpc.Retry) {
		if o.OnRetry != nil {
			o.OnRetry(Retry(failed))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("idemgrpc: %w", err)
	}
	return func(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		given := keyIn(ctx)
		key, firstSent := client.KeyOf(ctx, connection.Target(), method, given, request)
		if key != given {
			ctx = withKey(ctx, key, firstSent)
		}
		if field := client.EmptyKeyField(request); field != nil && key != "" {
			message := proto.Clone(request.(proto.Message)) //nolint:forcetypeassert // a message has the field
			message.ProtoReflect().Set(field, protoreflect.ValueOfString(key))
			request = message
		}
		var trailer metadata.MD // of a whole response: a header may come before the connection breaks
		opts = append(slices.Clip(opts), grpc.Trailer(&trailer))
		attempt := func(ctx context.Context) error {
			trailer = nil
			return invoke(ctx, method, request, reply, connection, opts...)
		}
		return client.Do(ctx, method, key, request, attempt, func(err error) *spb.Status {
			if slices.Contains(trailer[replayName], "true") || connection.GetState() == connectivity.Shutdown {
				return nil
			}
			return statusOf(err)
		})
	}, nil
}

// WithCall names a call, so that several calls of one guarded handler to one procedure
// get different keys. The name must be the same in every run of the handler: take the
// name from the data ("line-3"), not from a counter or a clock. Outside of a guarded
// handler the name has no effect, because every call there has its own key.
func WithCall(ctx context.Context, name string) context.Context { return outgoing.WithCall(ctx, name) }

// The metadata of the key, of the time of a key that has none, and of the mark of a replay.
var (
	keyName       = strings.ToLower(core.KeyHeader)
	firstSentName = strings.ToLower(outgoing.FirstSentHeader)
	replayName    = strings.ToLower(rpc.ReplayHeader)
)

// keyIn returns the key that the caller has put into the metadata, or "".
func keyIn(ctx context.Context) string {
	given, _ := metadata.FromOutgoingContext(ctx)
	for _, key := range given[keyName] {
		if key != "" {
			return key
		}
	}
	return ""
}

func withKey(ctx context.Context, key, firstSent string) context.Context {
	given, _ := metadata.FromOutgoingContext(ctx)
	given = metadata.Join(given) // a map, also without metadata
	given[keyName] = []string{key}
	if firstSent != "" && len(given[firstSentName]) == 0 {
		given[firstSentName] = []string{firstSent}
	}
	return metadata.NewOutgoingContext(ctx, given)
}
