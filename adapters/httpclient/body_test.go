package httpclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/internal/testkit"
)

// upload is a body that cannot be read twice.
type upload struct {
	io.Reader
	closed atomic.Int32
}

func (u *upload) Close() error { u.closed.Add(1); return nil }

// newUpload makes a request without GetBody.
func newUpload(t *testing.T, body io.ReadCloser, length int64) *http.Request {
	t.Helper()
	request := newRequest(t, "", "")
	request.Body, request.GetBody, request.ContentLength = body, nil, length
	return request
}

// Every attempt has the whole body.
func TestBodyIsSentAgain(t *testing.T) {
	t.Parallel()
	const order = `{"order":17}`
	testkit.EachInBubble(t, map[string]func(*testing.T) *http.Request{
		"with GetBody":               func(t *testing.T) *http.Request { return newRequest(t, "", order) },
		"read into memory":           func(t *testing.T) *http.Request { return newUpload(t, io.NopCloser(strings.NewReader(order)), 12) },
		"of unknown length":          func(t *testing.T) *http.Request { return newUpload(t, io.NopCloser(strings.NewReader(order)), -1) },
		"of a length that is not 0":  func(t *testing.T) *http.Request { return newUpload(t, io.NopCloser(strings.NewReader(order)), 0) },
		"exactly as long as allowed": func(t *testing.T) *http.Request { return newUpload(t, io.NopCloser(strings.NewReader(order)), -1) },
	}, func(t *testing.T, newOrder func(*testing.T) *http.Request) {
		shop := serverThat(failing(), status(http.StatusBadGateway), status(http.StatusCreated))
		request := newOrder(t)
		length := request.ContentLength
		send(transportTo(t, shop, httpclient.MaxBufferedBody(int64(len(order)))), request).expect(t, http.StatusCreated, "")
		for i, attempt := range shop.expectAttempts(t, 3) {
			if attempt.body != order || attempt.length != length {
				t.Errorf("attempt %d was sent %q of length %d, want %q of %d", i+1, attempt.body, attempt.length, order, length)
			}
		}
	})
}

// Case 66: the highest limits do not lose the body.
func TestEveryLimitSendsTheWholeBody(t *testing.T) {
	t.Parallel()
	for _, most := range []int64{1, 2, 3, math.MaxInt64 - 1, math.MaxInt64} {
		for _, length := range []int64{-1, 2} {
			shop := serverThat(status(http.StatusCreated))
			request := newUpload(t, io.NopCloser(strings.NewReader("{}")), length)
			send(transportTo(t, shop, httpclient.MaxBufferedBody(most)), request).expect(t, http.StatusCreated, "")
			testkit.Equal(t, shop.expectAttempts(t, 1)[0].body, "{}", "the body with MaxBufferedBody(%d) and length %d", most, length)
		}
	}
}

// A body that is too long for the buffer is sent once, whole and under a key.
func TestLongBodyIsSentOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]int64{"of known length": 11, "of unknown length": -1}, func(t *testing.T, length int64) {
		shop := serverThat(step{status: http.StatusServiceUnavailable, body: "busy"})
		body := &upload{Reader: strings.NewReader("hello world")}
		send(transportTo(t, shop, httpclient.MaxBufferedBody(10)), newUpload(t, body, length)).
			expect(t, http.StatusServiceUnavailable, "busy")
		got := shop.expectAttempts(t, 1)
		if got[0].body != "hello world" || got[0].key == "" || body.closed.Load() != 1 {
			t.Errorf("sent %q with the key %q; closed %d times", got[0].body, got[0].key, body.closed.Load())
		}
	})
}

// A body of a known length over the limit is streamed without read-ahead.
func TestLongBodyIsNotReadAhead(t *testing.T) {
	t.Parallel()
	type row struct{ most, length int64 }
	testkit.Each(t, map[string]row{
		"too long":             {10, 11},
		"none is to be read":   {0, -1},
		"none, and it has one": {0, 11},
	}, func(t *testing.T, row row) {
		body := &upload{Reader: strings.NewReader("hello world")}
		next := roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Body != body {
				t.Error("the body was read before it was sent")
			}
			request.Body.Close()
			return nil, errReset
		})
		send(transportTo(t, next, httpclient.MaxBufferedBody(row.most)), newUpload(t, body, row.length)).expectGivenUp(t, 1, errReset)
	})
}

var errDisk = errors.New("disk error")

// A body that cannot be read, or not again, ends the call without repetitions.
func TestBodyThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := serverThat(failing())
		body := &upload{Reader: io.MultiReader(strings.NewReader("half"), failingReader{})}
		got := send(transportTo(t, shop), newUpload(t, body, -1))
		got.expectGivenUp(t, 0, errDisk)
		given := got.givenUp(t)
		shop.expectAttempts(t, 0)
		if body.closed.Load() != 1 || !strings.Contains(given.Error(), "the request's body: disk error") {
			t.Errorf("%v; the body was closed %d times", given, body.closed.Load())
		}

		request := newRequest(t, "", "{}")
		request.GetBody = func() (io.ReadCloser, error) { return nil, errDisk }
		begun := time.Now()
		send(transportTo(t, shop), request).expectGivenUp(t, 1, errDisk)
		shop.expectAttempts(t, 1)
		if took := time.Since(begun); took > 400*time.Millisecond {
			t.Errorf("it took %v, want one wait and no more", took)
		}
	})
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errDisk }

// A body whose Close does not end its Read, as http.NewRequest makes it from a reader
// without Close: the context and MaxTime end the call all the same.
func TestBodyThatIgnoresItsClose(t *testing.T) {
	t.Parallel()
	type row struct {
		timeout time.Duration
		opts    []httpclient.Option
	}
	testkit.EachInBubble(t, map[string]row{
		"the context": {time.Second, nil},
		"MaxTime":     {time.Hour, []httpclient.Option{httpclient.MaxTime(time.Second)}},
	}, func(t *testing.T, row row) {
		reader, writer := io.Pipe()
		timer := time.AfterFunc(time.Minute, func() { writer.Close() })
		defer writer.Close()
		defer timer.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), row.timeout)
		defer cancel()
		body := &upload{Reader: reader}
		begun := time.Now()
		shop := serverThat(status(http.StatusCreated))
		send(transportTo(t, shop, row.opts...), newUpload(t, body, -1).WithContext(ctx)).expectGivenUp(t, 0, context.DeadlineExceeded)
		if took := time.Since(begun); took != time.Second || body.closed.Load() != 1 {
			t.Errorf("it took %v, and the body was closed %d times", took, body.closed.Load())
		}
		shop.expectAttempts(t, 0)
	})
}

// Every body is closed, for each end of a call.
func TestBodiesAreClosed(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]step{"response": status(http.StatusCreated), "refused": status(422), "given up": failing()}, func(t *testing.T, last step) {
		bodies := []*upload{{Reader: strings.NewReader("{}")}}
		request := newUpload(t, bodies[0], 2)
		request.GetBody = func() (io.ReadCloser, error) {
			bodies = append(bodies, &upload{Reader: strings.NewReader("{}")})
			return bodies[len(bodies)-1], nil
		}
		shop := serverThat(failing(), status(http.StatusBadGateway), last)
		send(transportTo(t, shop, httpclient.MaxAttempts(3)), request)
		shop.expectAttempts(t, 3)
		testkit.Equal(t, len(bodies), 3, "bodies for 3 attempts")
		for i, body := range bodies {
			testkit.Equal(t, body.closed.Load(), 1, "times that body %d was closed", i+1)
		}
		shop.expectBodiesClosed(t)
	})
	buffered := &upload{Reader: strings.NewReader("{}")}
	send(transportTo(t, serverThat(status(http.StatusCreated))), newUpload(t, buffered, 2))
	testkit.Equal(t, buffered.closed.Load(), 1, "times that a body read into memory was closed")
}

// A trailer that the caller sets while the body is read is sent.
func TestTrailerOfTheRequest(t *testing.T) {
	t.Parallel()
	next := roundTripper(func(request *http.Request) (*http.Response, error) {
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			t.Error(err)
		}
		testkit.Equal(t, request.Trailer.Get("X-Sum"), "42", "the trailer")
		return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, request.Body.Close()
	})
	request := newRequest(t, "", "")
	request.Trailer = http.Header{"X-Sum": nil}
	request.Body = io.NopCloser(io.MultiReader(bytes.NewReader([]byte("{}")), atEnd(func() { request.Trailer.Set("X-Sum", "42") })))
	request.GetBody = func() (io.ReadCloser, error) { return nil, errDisk }
	send(transportTo(t, next), request).expect(t, http.StatusCreated, "")
}

type atEnd func()

func (f atEnd) Read([]byte) (int, error) { f(); return 0, io.EOF }
