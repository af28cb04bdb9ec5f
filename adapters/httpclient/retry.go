package httpclient

import (
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// again decides whether there is another attempt, and after how long.
func (c *call) again(response *http.Response, err error) (wait time.Duration, again bool) {
	switch {
	case !c.body.repeatable || c.sent >= c.maxAttempts:
		return 0, false
	case err != nil && isPermanent(err), err == nil && !asksForRepetition(response):
		return 0, false
	case c.request.Context().Err() != nil:
		return 0, false
	}
	wait = c.pause(response)
	return wait, time.Now().Add(wait).Before(c.deadline)
}

// isPermanent knows the errors that no repetition heals.
func isPermanent(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, bodyless := errors.AsType[*bodyError](err)
	return untrusted || bodyless
}

// pause is min(max(base*2^n, Retry-After) + jitter, most), the jitter up to base*2^n.
func (c *call) pause(response *http.Response) time.Duration {
	grown := c.backoff.NextBackOff()
	asked := time.Duration(0)
	if response != nil {
		asked = retryAfter(response.Header, c.maxBackoff)
	}
	jitter := rand.N(grown + 1) //nolint:gosec // jitter is no secret
	return min(max(grown, asked)+jitter, c.maxBackoff)
}

// retryAfter reads RFC 9110, section 10.2.3: seconds, or a date, which is taken
// relative to the answer's own Date. What it cannot read, and what has passed, is 0.
func retryAfter(header http.Header, most time.Duration) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		if seconds > uint64(most/time.Second) {
			return most
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), most)
}
