package httpclient

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"time"
)

// source gives every attempt its own body.
type source struct {
	first      io.ReadCloser // the caller's body; nil after the first attempt took it
	again      func() (io.ReadCloser, error)
	repeatable bool
	err        error // the caller's body cannot be read
}

// newSource reads a body into memory if it cannot be sent again otherwise.
func newSource(request *http.Request, most int64, deadline time.Time) *source {
	switch {
	case isEmpty(request.Body):
		return &source{again: func() (io.ReadCloser, error) { return request.Body, nil }, repeatable: true}
	case request.GetBody != nil:
		return &source{first: request.Body, again: request.GetBody, repeatable: true}
	case most == 0 || request.ContentLength > most:
		return &source{first: request.Body}
	default:
		ctx, cancel := context.WithDeadlineCause(request.Context(), deadline, errBodyTooSlow)
		defer cancel()
		return buffered(ctx, request.Body, most, request.Trailer)
	}
}

func isEmpty(body io.ReadCloser) bool { return body == nil || body == http.NoBody }

// buffered returns when ctx ends, even if the body does not: a Read of a pipe may block
// for ever, and not every Close ends it.
func buffered(ctx context.Context, body io.ReadCloser, most int64, trailer http.Header) *source {
	most = min(most, math.MaxInt64-1) // most+1 bytes are read, to detect a longer body
	var head []byte
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		head, err = io.ReadAll(io.LimitReader(body, most+1))
	}()
	select {
	case <-read:
	case <-ctx.Done():
		body.Close()
		return &source{err: &bodyError{context.Cause(ctx)}}
	}
	switch {
	case err != nil:
		body.Close()
		return &source{err: &bodyError{err}}
	case int64(len(head)) > most:
		return &source{first: joined{io.MultiReader(bytes.NewReader(head), body), body}}
	}
	body.Close()
	return &source{repeatable: true, again: func() (io.ReadCloser, error) {
		if len(head) == 0 && len(trailer) == 0 { // net/http never ends a request of HTTP/2 with NoBody and trailers
			return http.NoBody, nil // over HTTP/2 any other body has an unknown length
		}
		return io.NopCloser(bytes.NewReader(head)), nil
	}}
}

// open returns the body of the next attempt. The attempt closes the body.
func (s *source) open() (io.ReadCloser, error) {
	if s.err != nil {
		return nil, s.err
	}
	if first := s.first; first != nil {
		s.first = nil
		return first, nil
	}
	body, err := s.again()
	if err != nil {
		return nil, &bodyError{err}
	}
	return body, nil
}

// joined combines a reader and a closer.
type joined struct {
	io.Reader
	io.Closer
}
