package httpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/core/problem"
)

// maxReadAhead bounds, in bytes, the part of a response that is read before RoundTrip
// returns or repeats the call.
const maxReadAhead = 64 << 10

// keep makes the response independent of its attempt. It reads a short body at once. For
// a longer body the attempt's context ends when the caller closes the body.
func keep(response *http.Response, cancel context.CancelCauseFunc) error {
	if response.Body == nil { // http.Client accepts a nil body too
		response.Body = http.NoBody
	}
	body := response.Body
	if mayRepeat(response.StatusCode) || 0 <= response.ContentLength && response.ContentLength <= maxReadAhead {
		head, err := io.ReadAll(io.LimitReader(body, maxReadAhead+1))
		if err != nil {
			body.Close()
			return err
		}
		if len(head) <= maxReadAhead {
			body.Close()
			cancel(nil)
			response.Body = io.NopCloser(bytes.NewReader(head))
			return nil
		}
		response.Body = joined{io.MultiReader(bytes.NewReader(head), body), body}
	}
	response.Body = &lasting{response.Body, cancel}
	return nil
}

// lasting is a body whose Close ends the attempt's context.
type lasting struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (l *lasting) Close() error {
	err := l.ReadCloser.Close()
	l.cancel(nil)
	return err
}

// mayRepeat reports whether a status can cause another attempt. An unknown 5xx, such as 524
// of Cloudflare, counts as 500 (RFC 9110, section 15).
func mayRepeat(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return status >= http.StatusInternalServerError && http.StatusText(status) == ""
}

// Headers that mark a stored response: the default of core.WithReplayHeader, and the one of Stripe and
// of commerce.ACP.
const replayHeader, replayedHeader = "X-Idempotent-Replay", "Idempotent-Replayed"

// asksForRepetition reports whether the call is repeated after this response. A replay is
// final, because another attempt gets the same response. A conflict is repeated only if it
// is temporary: it has a Retry-After, or is oncekey's in_progress.
func (c *call) asksForRepetition(response *http.Response) bool {
	var again, known bool
	peek(response, func(shown *http.Response) { again, known = c.repeatIf(shown) })
	switch {
	case known:
		return again
	case response.Header.Get(replayHeader) == "true", response.Header.Get(replayedHeader) == "true":
		return false
	case response.StatusCode != http.StatusConflict:
		return mayRepeat(response.StatusCode)
	case response.Header.Get("Retry-After") != "":
		return true
	}
	peek(response, func(shown *http.Response) { again = problemCode(shown) == problem.InProgress })
	return again
}

// peek passes look a copy of the response with the first 64 KiB of the body. Afterwards
// the response's body starts at the beginning again.
func peek(response *http.Response, look func(*http.Response)) {
	body := response.Body
	var head bytes.Buffer
	shown := *response
	shown.Body = io.NopCloser(io.TeeReader(io.LimitReader(body, maxReadAhead), &head))
	look(&shown)
	if head.Len() > 0 {
		response.Body = joined{io.MultiReader(&head, body), body}
	}
}

// problemCode returns the member code of an RFC 9457 problem, and "" for any other
// response.
func problemCode(response *http.Response) string {
	mediaType, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/problem+json" {
		return ""
	}
	var body json.RawMessage // one value, so that a body without an end does not block
	if json.NewDecoder(response.Body).Decode(&body) != nil {
		return ""
	}
	return gjson.GetBytes(body, "code").Str
}
