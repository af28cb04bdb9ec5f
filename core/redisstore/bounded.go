package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/internal/panicked"
)

const (
	// near is the longest time until the deadline of a call that no goroutine watches.
	// A cancellation ends the call only then.
	near = time.Second
	// reloadEvery is the minimum time between two reloads of a cluster's state.
	reloadEvery = time.Second
	// evictionDeadline bounds the request for the server's settings.
	evictionDeadline = 5 * time.Second
	// redisClient names the code whose panic is an error: it has hooks of the program.
	redisClient = "Redis client"
)

// bounded runs a call that ends with its context. While go-redis waits for
// a connection, it watches the context. While it waits for a reply, it watches only
// the deadline, and only if ContextTimeoutEnabled is set. An AutoPipeliner watches
// neither. So bounded runs the call in a goroutine. The client's own timeouts end that
// goroutine, and its late result is dropped. The call must not use memory of the
// caller's caller. No goroutine is needed if the client keeps a deadline that is near.
//
// The call's own context ends earlier when the call waits for a connection and the
// server refuses connections, see dialing.
//
// A panic of the call, such as that of one of the client's hooks, is an error. On a
// goroutine of the store the panic would end the process.
func bounded[T any](ctx context.Context, s *Store, call func(ctx context.Context) (T, error)) (T, error) {
	return boundedIf(ctx, s, false, call)
}

// boundedCommands is bounded for a call that sends its commands by process and run
// alone. With an AutoPipeliner these end with their context, and need no goroutine.
func boundedCommands[T any](ctx context.Context, s *Store, call func(ctx context.Context) (T, error)) (T, error) {
	return boundedIf(ctx, s, s.deferred != nil, call)
}

func boundedIf[T any](ctx context.Context, s *Store, ends bool, call func(ctx context.Context) (T, error)) (result T, err error) {
	defer panicked.ToError(redisClient, &err)
	if err := ctx.Err(); err != nil {
		return result, err
	}
	deadline, limited := ctx.Deadline()
	left := time.Until(deadline)
	soon := limited && left <= near
	alone := ends || s.punctual && soon || ctx.Done() == nil
	var end *sharedEnd
	if alone && soon {
		end = s.dialing.share(left)
	}
	switch {
	case end != nil:
		shared := &sharedContext{ctx, end}
		result, err = call(shared)
		err = s.dialing.reason(shared, err)
	case alone:
		result, err = dialed(ctx, s, call)
	default:
		result, err = panicked.Within(ctx, redisClient, func() (T, error) { return dialed(ctx, s, call) })
	}
	return result, s.noticed(ctx, err)
}

// noticed returns the error of a call with its context's error, and acts on it.
func (s *Store) noticed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	s.topology.heal(ctx, err)
	err = withContextError(ctx, err)
	if errors.Is(err, context.DeadlineExceeded) {
		s.warm()
	}
	return err
}

// dialed runs a call, which a failed dial may end.
func dialed[T any](ctx context.Context, s *Store, call func(ctx context.Context) (T, error)) (T, error) {
	ctx, end := s.dialing.begin(ctx)
	defer end()
	result, err := call(ctx)
	return result, s.dialing.reason(ctx, err)
}

// withContextError adds the context's error when the client returned its own error
// for a timeout, such as a socket's "i/o timeout".
func withContextError(ctx context.Context, err error) error {
	ended := ctx.Err()
	if deadline, limited := ctx.Deadline(); ended == nil && limited && !time.Now().Before(deadline) {
		ended = context.DeadlineExceeded // the socket's timer was faster than the context's
	}
	if ended == nil || errors.Is(err, ended) {
		return err
	}
	return fmt.Errorf("%w: %w", ended, err)
}

// reloader is the method that *redis.ClusterClient adds to redis.UniversalClient.
type reloader interface{ ReloadState(ctx context.Context) }

// topology asks a cluster client to find the masters again. Without a request the
// client dials a dead master for up to a minute.
type topology struct {
	client reloader // nil unless the client is a cluster's
	start  time.Time
	// next is the time of the next allowed reload, since start.
	next *atomic.Int64
}

func newTopology(client redis.UniversalClient) topology {
	cluster, _ := client.(reloader)
	return topology{client: cluster, start: time.Now(), next: new(atomic.Int64)}
}

// heal reloads the cluster's state if the error looks like a dead server, at most
// once a second. It does not wait for the reload.
func (t topology) heal(ctx context.Context, err error) {
	if t.client == nil || !looksDead(err) {
		return
	}
	now, next := time.Since(t.start), t.next.Load()
	if int64(now) >= next && t.next.CompareAndSwap(next, int64(now+reloadEvery)) {
		t.client.ReloadState(context.WithoutCancel(ctx))
	}
}

// looksDead reports whether a server may have died. A server that has become a
// replica counts too, because a command sent to one server does not follow MOVED.
func looksDead(err error) bool {
	if _, elsewhere := redis.IsMovedError(err); elsewhere {
		return true
	}
	if failed, is := errors.AsType[*net.OpError](err); is && failed.Op == "dial" {
		return true
	}
	failed, is := errors.AsType[net.Error](err) // context.DeadlineExceeded is a net.Error too
	return is && failed.Timeout()
}

// isNil reports whether the server's reply is that there is no such key. The error of a dial
// may only wrap this one: sentinels reply it about a master that they do not know.
func isNil(err error) bool {
	return err == redis.Nil //nolint:errorlint // identity is meant, not Is
}

// warnOfEviction logs a warning when the server may drop records before they expire.
// It logs no warning if the server hides its settings, as managed servers may.
func (s *Store) warnOfEviction() {
	defer panicked.ToError(redisClient, new(error))
	ctx, cancel := context.WithTimeout(context.Background(), evictionDeadline)
	defer cancel()
	settings, err := s.client.ConfigGet(ctx, "maxmemory*").Result()
	limit, policy := settings["maxmemory"], settings["maxmemory-policy"]
	if err == nil && mayEvict(limit, policy) {
		s.log().WarnContext(ctx, "redisstore: Redis may evict idempotency records, and a request may then run twice: "+
			adviceOfEviction, "maxmemory", limit, "maxmemory-policy", policy)
	}
}

const (
	noEviction       = "noeviction"
	adviceOfEviction = "set maxmemory-policy to noeviction"
)

// mayEvict reports whether the server drops records when its memory runs short.
func mayEvict(limit, policy string) bool { return limit != "" && limit != "0" && policy != noEviction }

func (s *Store) log() *slog.Logger { return cmp.Or(s.logger, slog.Default()) }
