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
	sent      int
}

func (t *Transport) newCall(request *http.Request, key, firstSent string) *call {
	now := time.Now()
	return &call{
		Transport: t, request: request, key: key, firstSent: firstSent,
		body:  newSource(request, t.maxBufferedBody, now.Add(t.limits.MaxTime)),
		begun: now, deadline: outgoing.Deadline(request.Context(), now, t.limits.MaxTime),
	}
}

func (c *call) do() (response *http.Response, err error) {
	var retry Retry
	ctx := c.request.Context()
	cutOff := c.limits.Repeat(ctx, c.deadline, func() (int, bool) {
		response, err = c.attempt() //nolint:bodyclose // the wait closes it, or the caller
		return c.sent, c.body.repeatable
	}, func() (time.Duration, bool) {
		if err != nil {
			return 0, !isPermanent(err)
		}
		return retryAfter(response.Header, c.limits.MaxBackoff), c.asksForRepetition(response)
	}, func(wait time.Duration) {
		retry = Retry{Request: c.request, Key: c.key, Attempts: c.sent, Err: err, Wait: wait}
		if response != nil {
			retry.Status = response.StatusCode
			response.Body.Close()
		}
		c.onRetry(retry)
	})
	if cutOff {
		err = fmt.Errorf("%w while waiting to repeat the request after %s", context.Cause(ctx), retry.cause())
	}
	if err != nil {
		return nil, &AttemptsError{Attempts: c.sent, Elapsed: time.Since(c.begun), Err: err}
	}
	return response, nil
}

func (r Retry) cause() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("status %d", r.Status)
}
