package redisstore

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialPatience is how long a call waits for a connection that another call's dial
// did not get.
const dialPatience = 10 * time.Millisecond

// dialing ends the calls that wait for a connection as soon as a dial has failed.
// By itself go-redis dials five times within one command, a tenth of a second apart,
// and then has no more to say than that the time is over (case 47). Calls that have
// a connection are left alone: go-redis looks at a call's context only while it
// waits for one, or between two tries.
//
// It is a hook of a *redis.Client. A cluster's calls are not ended: another server
// may have the key by now.
type dialing struct {
	mutex   sync.Mutex
	failure error // of the last dial, or nil
	calls   map[*dialingCall]struct{}
}

// dialingCall is a call that may wait for a connection.
type dialingCall struct {
	end   context.CancelCauseFunc
	timer *time.Timer // nil unless the last dial had failed when the call began
}

// watchDials returns nil for a client other than a *redis.Client.
func watchDials(client redis.UniversalClient) *dialing {
	server, is := client.(*redis.Client)
	if !is {
		return nil
	}
	d := &dialing{calls: map[*dialingCall]struct{}{}}
	server.AddHook(d)
	return d
}

// begin returns the context of a call, and what ends it.
func (d *dialing) begin(ctx context.Context) (context.Context, func()) {
	if d == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	call := &dialingCall{end: cancel}
	d.mutex.Lock()
	d.calls[call] = struct{}{}
	if d.failure != nil { // the client may return the last failure for a while, without a dial
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

// dialed takes down what became of a dial.
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
}

// reason is the failed dial that has ended a call, in place of the call's own error.
func (d *dialing) reason(ctx context.Context, err error) error {
	if d == nil || ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); cause != ctx.Err() { //nolint:errorlint // the very one
		return fmt.Errorf("no connection: %w", cause)
	}
	return err
}

// DialHook implements redis.Hook.
func (d *dialing) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := next(ctx, network, address)
		if ctx.Err() == nil { // else it was given up, which says nothing about the server
			d.dialed(err)
		}
		return connection, err
	}
}

// ProcessHook implements redis.Hook: commands go their way without it.
func (d *dialing) ProcessHook(redis.ProcessHook) redis.ProcessHook { return nil }

// ProcessPipelineHook implements redis.Hook: pipelines go their way without it.
func (d *dialing) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return nil
}
