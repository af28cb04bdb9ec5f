package httpclient

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/adapters/internal/outgoing"
)

// attempt sends the request once and returns the response. keep says which responses are
// read before the return.
func (c *call) attempt() (*http.Response, error) {
	body, err := c.body.open()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(c.request.Context())
	limit := min(c.limits.AttemptTimeout, time.Until(c.deadline))
	expired := fmt.Errorf("no response within %v: %w", limit.Round(time.Millisecond), context.DeadlineExceeded)
	timer := time.AfterFunc(limit, func() { cancel(expired) })
	defer timer.Stop()

	outgoing := c.request.WithContext(ctx)
	outgoing.Header = c.outgoingHeader()
	outgoing.Body = body
	resends := new(resendCounter)
	switch {
	case !isEmpty(body):
		outgoing.GetBody = nil // with GetBody, net/http would repeat the request
	case c.countsResends:
		outgoing = outgoing.WithContext(resends.watch(ctx, cancel, c.limits.MaxAttempts-c.sent))
	}

	response, err := c.next.RoundTrip(outgoing)
	if err == nil {
		err = keep(response, cancel)
	}
	c.sent += max(1, int(resends.sent.Load()))
	if err != nil {
		cancel(err)
		// HTTP/2 only reports the cancellation.
		if cause := context.Cause(ctx); cause == expired || cause == errSentTooOften { //nolint:errorlint // identity is meant
			err = cause
		}
		return nil, err
	}
	if response.Request == nil { // a redirect reads the key from Request
		response.Request = outgoing
	}
	return response, nil
}

// outgoingHeader makes a new header for every attempt, so that an attempt cannot change
// the header of the next attempt. The caller's key keeps the spelling of its name.
func (c *call) outgoingHeader() http.Header {
	header := c.request.Header.Clone()
	if keyIn(header, c.header) == c.key {
		return header
	}
	maps.DeleteFunc(header, func(name string, _ []string) bool { return strings.EqualFold(name, c.header) })
	if c.key != "" {
		if header == nil {
			header = http.Header{}
		}
		header.Set(c.header, c.key)
	}
	if c.firstSent != "" && header.Get(outgoing.FirstSentHeader) == "" {
		header.Set(outgoing.FirstSentHeader, c.firstSent)
	}
	return header
}

// resendCounter counts the connections that http.Transport uses for one request.
type resendCounter struct{ sent atomic.Int32 }

// watch returns a context that limits how often http.Transport sends a request. When
// http.Transport asks for one connection too many, watch cancels the attempt. At that
// point http.Transport may already have a connection, and send the request once more.
func (r *resendCounter) watch(ctx context.Context, cancel context.CancelCauseFunc, allowed int) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			if int(r.sent.Load()) >= allowed {
				cancel(errSentTooOften)
			}
		},
		GotConn: func(httptrace.GotConnInfo) { r.sent.Add(1) },
	})
}
