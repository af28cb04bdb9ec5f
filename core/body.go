package core

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
)

// room is where a small body is read to. It is lent to one request after another.
type room [1 << 10]byte

var rooms = sync.Pool{New: func() any { return new(room) }}

// readBody reads the whole body, which is at most limit bytes, into room if there
// is enough.
func readBody(w http.ResponseWriter, r *http.Request, room []byte, limit int64) ([]byte, *Problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, problem(CodeBodyTooLarge, "")
	}
	source := r.Body
	if r.ContentLength < 0 { // the server is to close the connection when there is more
		source = http.MaxBytesReader(w, source, limit)
	}
	body, err := readAll(source, room, r.ContentLength, limit)
	switch {
	case isTooLarge(err), int64(len(body)) > limit: // a length that was not true
		return nil, problem(CodeBodyTooLarge, "")
	case err != nil:
		return nil, problem(CodeBodyUnreadable, "")
	case len(body) == 0 && r.ContentLength > 0:
		return nil, problem(CodeBodyUnreadable, "Request body was read before it reached the idempotency guard")
	}
	return body, nil
}

// readAll reads to the end, or beyond the limit, or to an error. The length is what the client
// claims, or negative: it does not reserve more than a first read.
func readAll(r io.Reader, buffer []byte, length, limit int64) ([]byte, error) {
	const firstRead = 64 << 10
	if need := int(min(length, firstRead)) + 1; need > cap(buffer) { // one more, to see the end
		buffer = make([]byte, 0, need)
	}
	for int64(len(buffer)) <= limit {
		if len(buffer) == cap(buffer) {
			buffer = slices.Grow(buffer, max(bytes.MinRead, len(buffer)))
		}
		n, err := r.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case errors.Is(err, io.EOF):
			return buffer, nil
		case err != nil:
			return buffer, err
		}
	}
	return buffer, nil
}

func isTooLarge(err error) bool {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	return tooLarge
}

// peekBody reads the body as readBody does, and leaves the request as it was.
func peekBody(r *http.Request, limit int64) ([]byte, *Problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, problem(CodeBodyTooLarge, "")
	}
	body, err := readAll(r.Body, nil, r.ContentLength, limit)
	rest := io.Reader(r.Body)
	if err != nil {
		rest = failingReader{err}
	}
	r.Body = &peekedBody{Reader: io.MultiReader(bytes.NewReader(body), rest), Closer: r.Body}
	switch {
	case err != nil:
		return nil, problem(CodeBodyUnreadable, "")
	case int64(len(body)) > limit:
		return nil, problem(CodeBodyTooLarge, "")
	}
	return body, nil
}

// peekedBody is a body whose beginning was read already.
type peekedBody struct {
	io.Reader
	io.Closer
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// restoredBody is a body that was read already, for as long as its handler runs.
// What a handler reads later is not there: the room is another request's by then.
type restoredBody struct {
	mu   sync.Mutex
	rest []byte
	err  error // at the end of it
}

// in returns the request with that body and another context.
func (b *restoredBody) in(r *http.Request, ctx context.Context, body []byte) *http.Request { //nolint:revive // the request is what this is about
	r = r.WithContext(ctx)
	if body != nil {
		b.rest, b.err = body, io.EOF
		r.Body = b
	}
	return r
}

func (b *restoredBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rest) == 0 {
		return 0, b.err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close ends it, as net/http's server does when the handler has returned.
func (b *restoredBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest, b.err = nil, http.ErrBodyReadAfterClose
	return nil
}
