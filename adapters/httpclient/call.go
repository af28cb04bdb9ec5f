package httpclient

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/adapters/internal/outgoing"
)

// call is one call of RoundTrip. Only the goroutine of RoundTrip uses it.
type call struct {
	*Transport
	request *http.Request // the caller's request: never changed
	key     string        // the key of every attempt, or empty
	// firstSent is the time of a key that has none itself, for the header, or empty.
	firstSent string
	body      *source
	begun     time.Time
	deadline  time.Time // the earlier deadline of MaxTime and the context
	pauses    int       // number of pauses between attempts
	sent      int
}

func (t *Transport) newCall(request *http.Request, key, firstSent string) *call {
	now := time.Now()
	c := &call{
		Transport: t, request: request, key: key, firstSent: firstSent,
		begun: now, deadline: now.Add(t.maxTime),
	}
	if deadline, has := request.Context().Deadline(); has && deadline.Before(c.deadline) {
		c.deadline = deadline
	}
	c.body = newSource(request, t.maxBufferedBody, c.begun.Add(t.maxTime))
	return c
}

func (c *call) do() (*http.Response, error) {
	for {
		response, err := c.attempt()
		wait, again := c.again(response, err)
		if !again {
			if err != nil {
				return nil, c.givenUp(err)
			}
			return response, nil
		}
		retry := Retry{Request: c.request, Key: c.key, Attempts: c.sent, Err: err, Wait: wait}
		if response != nil {
			retry.Status = response.StatusCode
			response.Body.Close()
		}
		c.onRetry(retry)
		if ctx := c.request.Context(); !outgoing.Sleep(ctx, wait) {
			return nil, c.givenUp(fmt.Errorf("%w while waiting to repeat the request after %s", context.Cause(ctx), retry.cause()))
		}
	}
}

func (r Retry) cause() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("status %d", r.Status)
}

func (c *call) givenUp(err error) error {
	return &AttemptsError{Attempts: c.sent, Elapsed: time.Since(c.begun), Err: err}
}
