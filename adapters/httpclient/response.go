package httpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"

	"github.com/oncekey/oncekey/core"
)

// maxReadAhead bounds, in bytes, what is read of an answer before the caller, or
// the next attempt, has its turn.
const maxReadAhead = 64 << 10

// keep makes the answer independent of its attempt: what is short is read at
// once, and the attempt's context ends when the rest is closed.
func keep(response *http.Response, cancel context.CancelCauseFunc) error {
	if response.Body == nil { // http.Client forgives it too
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

// lasting is a body that ends its attempt's context when it is closed.
type lasting struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (l *lasting) Close() error {
	err := l.ReadCloser.Close()
	l.cancel(nil)
	return err
}

// mayRepeat reports whether a status can lead to another attempt.
func mayRepeat(status int) bool {
	switch status {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// asksForRepetition reports whether the answer is one to repeat the call after.
// Of the conflicts that is the one that ends by itself.
func asksForRepetition(response *http.Response) bool {
	if response.StatusCode == http.StatusConflict {
		return problemCode(response) == core.CodeInProgress
	}
	return mayRepeat(response.StatusCode)
}

// problemCode returns the member code of an RFC 9457 problem that keep has read,
// and "" of everything else. The body stays readable from its beginning.
func problemCode(response *http.Response) string {
	mediaType, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/problem+json" {
		return ""
	}
	head, err := io.ReadAll(io.LimitReader(response.Body, maxReadAhead+1))
	response.Body = joined{io.MultiReader(bytes.NewReader(head), response.Body), response.Body}
	var problem struct {
		Code string `json:"code"`
	}
	if err != nil || json.Unmarshal(head, &problem) != nil {
		return ""
	}
	return problem.Code
}
