package redisstore

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialPatience is how long a call waits for a connection after another call's dial
// failed.
const dialPatience = 10 * time.Millisecond

// dialing ends the calls that wait for a connection as soon as a dial has failed.
// Without dialing, go-redis dials five times within one command, a tenth of a second
// apart, and finally reports only a timeout (case 47). dialing does not affect calls
// that have a connection: go-redis checks a call's context only while the call waits
// for a connection, or between two tries.
//
// dialing is a hook of a *redis.Client. The calls of another client are not ended: in
// a cluster another server may have taken over the key.
type dialing struct {
	watches bool // it is a hook
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
	if ctx.Err() == nil {
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

// DialHook implements redis.Hook.
func (d *dialing) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := next(ctx, network, address)
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
