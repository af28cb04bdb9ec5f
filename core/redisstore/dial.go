package redisstore

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/internal/panicked"
)

// dialPatience is how long a call waits for a connection after another call's dial
// failed.
const dialPatience = 10 * time.Millisecond

// slowDial is the least time of a dial whose first packet was lost.
const slowDial = time.Second

// dialing ends the calls that wait for a connection as soon as a dial has failed.
// Without dialing, go-redis dials five times within one command, a tenth of a second
// apart, and finally reports only a timeout. dialing does not affect calls
// that have a connection: go-redis checks a call's context only while the call waits
// for a connection, or between two tries.
//
// dialing is a hook of a *redis.Client. The calls of another client are not ended: in
// a cluster another server may have taken over the key.
type dialing struct {
	watches bool // it is a hook
	elected bool // sentinels name the server of each dial
	mutex   sync.Mutex
	failure error // of the last dial, or nil
	calls   map[*dialingCall]struct{}
	shared  map[int64]*sharedEnd // by steps since start, see share
	start   time.Time
}

// dialingCall is a call that may wait for a connection.
type dialingCall struct {
	end   context.CancelCauseFunc
	timer *time.Timer // nil unless the last dial had failed when the call began
}

func watchDials(client redis.UniversalClient) *dialing {
	server, is := client.(*redis.Client)
	d := &dialing{watches: is, calls: map[*dialingCall]struct{}{}, shared: map[int64]*sharedEnd{}, start: time.Now()}
	if is {
		d.elected = server.Options().Addr == "FailoverClient"
		server.AddHook(d)
	}
	return d
}

// begin returns the context of a call, and a function that ends the call.
func (d *dialing) begin(ctx context.Context) (context.Context, func()) {
	if !d.watches {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	call := &dialingCall{end: cancel}
	d.mutex.Lock()
	d.calls[call] = struct{}{}
	if d.failure != nil { // the client may return the last failure for a while, without a new dial
		call.timer = time.AfterFunc(dialPatience, func() { d.endIfFailed(call) })
	}
	d.mutex.Unlock()
	return ctx, func() {
		d.mutex.Lock()
		delete(d.calls, call)
		d.mutex.Unlock()
		if call.timer != nil {
			call.timer.Stop()
		}
		cancel(nil)
	}
}

func (d *dialing) endIfFailed(call *dialingCall) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.failure != nil {
		call.end(d.failure)
	}
}

// dialed records the result of a dial.
func (d *dialing) dialed(err error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.failure = err
	if err == nil {
		return
	}
	for call := range d.calls {
		call.end(err)
	}
	for step, end := range d.shared {
		end.timer.Stop()
		d.close(step, end, err)
	}
}

// reason returns the failed dial that has ended a call, or else the call's own error.
func (d *dialing) reason(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if shared, is := ctx.(*sharedContext); is {
		cause = shared.end.err
	}
	if d.watches && cause != ctx.Err() { //nolint:errorlint // identity is meant, not Is
		return fmt.Errorf("no connection: %w", cause)
	}
	return err
}

// DialHook implements redis.Hook. A client of sentinels closes the connections that it has to an
// old master, and not those under way. They would write there until a sentinel makes it a replica.
func (d *dialing) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		start := time.Now()
		connection, err := next(ctx, network, address)
		if d.elected && err == nil && time.Since(start) >= slowDial { // there may be another master now
			_ = connection.Close()
			connection, err = next(ctx, network, address)
		}
		if ctx.Err() == nil { // a dial that was given up tells no fact about the server
			d.dialed(err)
		}
		return connection, err
	}
}

// ProcessHook implements redis.Hook. It adds no step to commands.
func (d *dialing) ProcessHook(redis.ProcessHook) redis.ProcessHook { return nil }

// ProcessPipelineHook implements redis.Hook. It adds no step to pipelines.
func (d *dialing) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return nil
}

// sharedStep is how much later than its deadline a call may end.
const sharedStep = time.Second / 64

// sharedEnd is the end of all calls whose deadlines lie in one step.
type sharedEnd struct {
	done  chan struct{}
	err   error // set when done is closed: the deadline's error, or a failed dial's
	timer *time.Timer
}

// share returns the end of a call that has some time left, or nil while the last dial
// has failed. A timer, a channel and two contexts for each call took a sixth of the
// memory of a first-time request, and a quarter of its allocations.
func (d *dialing) share(left time.Duration) *sharedEnd {
	step := int64((time.Since(d.start)+left)/sharedStep) + 1
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.failure != nil {
		return nil
	}
	end := d.shared[step]
	if end == nil {
		end = &sharedEnd{done: make(chan struct{})}
		d.shared[step] = end
		end.timer = time.AfterFunc(time.Until(d.start.Add(time.Duration(step)*sharedStep)), func() {
			d.mutex.Lock()
			defer d.mutex.Unlock()
			if d.shared[step] == end { // else a failed dial was faster
				d.close(step, end, context.DeadlineExceeded)
			}
		})
	}
	return end
}

// close ends the calls. The caller holds the mutex.
func (d *dialing) close(step int64, end *sharedEnd, err error) {
	delete(d.shared, step)
	end.err = err
	close(end.done)
}

// sharedContext ends with a sharedEnd, and not with its parent.
type sharedContext struct {
	context.Context //nolint:containedctx // it is the parent
	end             *sharedEnd
}

// Done implements context.Context.
func (c *sharedContext) Done() <-chan struct{} { return c.end.done }

// Err implements context.Context.
func (c *sharedContext) Err() error {
	select {
	case <-c.end.done:
	default:
		return nil
	}
	if c.end.err == context.DeadlineExceeded { //nolint:errorlint // identity is meant, not Is
		return context.DeadlineExceeded
	}
	return context.Canceled
}

const (
	// warmWithin bounds the time to open a connection.
	warmWithin = 5 * time.Second
	// warmAtOnce is how many connections of a kind are opened at a time.
	warmAtOnce = 8
)

// warmer opens connections in the background after calls ran out of time. A new
// connection costs several round trips before its first command. To a distant server
// they take longer than a call may take, and a call that is given up closes its
// connection. Without the warmer no call to such a server would ever succeed.
type warmer struct {
	failed atomic.Int32 // calls since the last round
	busy   atomic.Bool
}

// warm opens as many connections as calls have failed, in one goroutine at a time.
func (s *Store) warm() {
	s.warmer.failed.Add(1)
	if s.warmer.busy.CompareAndSwap(false, true) {
		go s.warmUp()
	}
}

func (s *Store) warmUp() {
	defer s.warmer.busy.Store(false)
	for wanted := s.warmer.failed.Swap(0); wanted > 0; wanted = s.warmer.failed.Swap(0) {
		ctx, cancel := context.WithTimeout(context.Background(), warmWithin)
		var round sync.WaitGroup
		for range min(wanted, warmAtOnce) {
			// The client has two kinds of connections: for pipelines and for
			// commands.
			round.Go(func() { _ = panicked.Call(redisClient, func() error { return s.check(ctx) }) })
			round.Go(func() { _ = panicked.Call(redisClient, func() error { return s.client.Ping(ctx).Err() }) })
		}
		round.Wait()
		cancel()
	}
}
