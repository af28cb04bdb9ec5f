package handlertest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/oncekey/oncekey/internal/guarded"
)

// Call makes an outgoing call with the faults of the run. Put it around calls of clients
// that are neither HTTP nor database/sql. The name names the call in the matrix. do gets
// ctx, and an error of do ends the call.
//
//	err := w.Call(ctx, "publish", func(ctx context.Context) error { return queue.Publish(ctx, order) })
func (w *World) Call(ctx context.Context, name string, do func(context.Context) error) error {
	_, err := w.outgoing(ctx, call, name, func() error { return do(ctx) })
	return err
}

// outgoing makes an outgoing call. A fault that is left to the caller is returned: the
// reply is cut, or reading it panics.
func (w *World) outgoing(ctx context.Context, k kind, name string, do func() error) (fault, error) {
	a := w.attemptOf(ctx)
	if a == nil {
		return fault{}, do()
	}
	if a.process.isDead() {
		return fault{}, errKilled
	}
	f, failing := w.arrive(k, name)
	if failing && f.when == before {
		if err := w.fail(ctx, a, k, f); err != nil {
			return fault{}, err
		}
	}
	if err := do(); err != nil || !failing || f.when == before {
		return fault{}, err
	}
	if f == (fault{after, replyCut}) || f == (fault{after, panics}) {
		return f, nil
	}
	return fault{}, w.fail(ctx, a, k, f)
}

// attemptOf returns the attempt of a context. A call without the request's context
// belongs to the last attempt. A call before the first request has none.
func (w *World) attemptOf(ctx context.Context) *attempt {
	if a, _ := guarded.Value(ctx, attemptKey{}).(*attempt); a != nil {
		return a
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// fail returns nil if the call goes on, or its reply arrives.
func (w *World) fail(ctx context.Context, a *attempt, k kind, f fault) error {
	switch f.what {
	case refused:
		return errRefused
	case replyLost:
		return errReplyLost
	case panics:
		return panicking()
	case timeOut:
		return w.hang(ctx, a)
	case killed:
		return a.process.die(k)
	case clientGone:
		w.disconnect(a, clientGone)
	case replyLate:
		_ = w.hang(ctx, a)
	case leaseLost:
		w.usurp()
		w.mu.Lock()
		rest := w.lease.LockTTL
		w.mu.Unlock()
		err := wait(ctx, rest)
		if !k.isSQL() { // where database/sql holds a lock
			time.Sleep(rest) //nolint:forbidigo // in a bubble: the run's context has ended, whatever the call's own time-out is
		}
		if f.when == before {
			return err
		}
	}
	return nil
}

// panicking panics on the goroutine of the handler. On another goroutine of the handler a
// panic would end the test program, so the call returns an error there.
func panicking() error {
	if onHandler() {
		panic(errPanic)
	}
	return errPanic
}

// hang waits until the context of the call ends, or for a call with a context of its own
// until that of the request has ended.
func (w *World) hang(ctx context.Context, a *attempt) error {
	if err := wait(ctx, time.Until(a.ends)+time.Millisecond); err != nil {
		return err
	}
	return context.DeadlineExceeded
}

// wait returns the context's error if it ends within d.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}

// Transport returns a http.RoundTripper with the faults of the run. It serves provider in
// memory: no request leaves the process, and every host is the provider. The provider gets
// a request without the values of the handler's context. A panic of the provider closes
// the connection.
//
//	client := &http.Client{Transport: w.Transport(provider), Timeout: 10 * time.Second}
func (w *World) Transport(provider http.Handler) http.RoundTripper {
	return &transport{w, provider}
}

type transport struct {
	world    *World
	provider http.Handler
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	if err := r.Context().Err(); err != nil { // as http.Transport does
		return nil, err
	}
	var reply *http.Response
	f, err := t.world.outgoing(r.Context(), roundTrip, r.Method+" "+r.URL.Host+r.URL.Path, func() (err error) {
		reply, err = t.serve(r, body) //nolint:bodyclose // the caller of RoundTrip closes it
		return err
	})
	if err != nil {
		return nil, err
	}
	if f.what != "" {
		reply.Body = &failingBody{reply.Body, f.what}
	}
	return reply, nil
}

// bodyOf reads and closes the request's body, as a RoundTripper must.
func bodyOf(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// serve lets the provider serve the request.
func (t *transport) serve(r *http.Request, body []byte) (reply *http.Response, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%w, because the provider panicked: %v", errReplyLost, cause)
		}
	}()
	received := httptest.NewRequestWithContext(t.world.Context(), r.Method, r.URL.String(), bytes.NewReader(body))
	received.Header, received.Host = r.Header.Clone(), cmp.Or(r.Host, r.URL.Host)
	recorder := httptest.NewRecorder()
	t.provider.ServeHTTP(recorder, received)
	reply = recorder.Result()
	reply.Request = r
	return reply, nil
}

// failingBody fails the reading of a reply, or at the latest its Close.
type failingBody struct {
	io.ReadCloser
	what string
}

func (b *failingBody) Read([]byte) (int, error) {
	if b.what == panics {
		b.what = replyCut
		return 0, panicking()
	}
	return 0, fmt.Errorf("%w: the reply ends early: %w", errFault, io.ErrUnexpectedEOF)
}

func (b *failingBody) Close() error {
	if b.what == panics {
		b.what = replyCut
		return panicking()
	}
	return b.ReadCloser.Close()
}
