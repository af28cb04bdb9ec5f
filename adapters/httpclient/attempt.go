package httpclient

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// attempt sends the request once, and returns when its answer is there: see keep.
func (c *call) attempt() (*http.Response, error) {
	body, err := c.body.open()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(c.request.Context())
	limit := min(c.attemptTimeout, time.Until(c.deadline))
	expired := attemptTimeout(limit)
	timer := time.AfterFunc(limit, func() { cancel(expired) })
	defer timer.Stop()

	outgoing := c.request.WithContext(ctx)
	outgoing.Header = c.outgoingHeader()
	outgoing.Body = body
	resends := new(resendCounter)
	switch {
	case !isEmpty(body):
		outgoing.GetBody = nil // or net/http sends it again by itself
	case c.countsResends:
		outgoing = outgoing.WithContext(resends.watch(ctx, cancel, c.maxAttempts-c.sent))
	}

	response, err := c.next.RoundTrip(outgoing)
	if err == nil {
		err = keep(response, cancel)
	}
	c.sent += max(1, int(resends.sent.Load()))
	if err != nil {
		cancel(err)
		// HTTP/2 says only that it was cancelled.
		if cause := context.Cause(ctx); cause == expired || cause == errSentTooOften { //nolint:errorlint // this very one
			err = cause
		}
		return nil, err
	}
	if response.Request == nil { // a redirect reads the key there
		response.Request = outgoing
	}
	return response, nil
}

// outgoingHeader is made anew for every attempt, so that an attempt cannot change
// the header of the next one. The caller's own key keeps the spelling of its name.
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
	return header
}

// resendCounter counts how often http.Transport sends one request.
type resendCounter struct{ sent atomic.Int32 }

// watch returns a context for a request that may be sent that often. When
// http.Transport asks for one connection too many, the attempt is cancelled; it
// may already have a connection then, and send the request a last time.
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
