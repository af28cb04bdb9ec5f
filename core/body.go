package core

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/oncekey/oncekey/core/problem"
)

// room is where a small body is read to. It is lent to one request after another.
type bodyBuffer [1 << 10]byte

var bodyBuffers = sync.Pool{New: func() any { return new(bodyBuffer) }}

// readBody reads the whole body, which is at most limit bytes, into room if there
// is enough.
func readBody(r *http.Request, buffer []byte, limit int64) ([]byte, *problem.Problem) {
	if r.ContentLength > limit {
		return nil, problem.New(problem.BodyTooLarge, "")
	}
	var body []byte
	if r.Body != nil && r.Body != http.NoBody {
		var err error
		body, err = readAll(r.Body, buffer, r.ContentLength, limit)
		if refusal := bodyProblem(body, err, limit); refusal != nil {
			return nil, refusal
		}
	}
	if len(body) == 0 && announcesBody(r) {
		return nil, consumedProblem()
	}
	return body, nil
}

// bodyProblem returns the problem of a body of which readAll has read this much.
func bodyProblem(body []byte, err error, limit int64) *problem.Problem {
	switch {
	case isTooLarge(err), int64(len(body)) > limit: // a length that was not true
		return problem.New(problem.BodyTooLarge, "")
	case err != nil:
		return problem.New(problem.BodyUnreadable, "")
	default:
		return nil
	}
}

func consumedProblem() *problem.Problem {
	return problem.New(problem.BodyUnreadable, "Request body was read before it reached the idempotency guard")
}

// announcesBody reports whether a request that has nothing left to read seems to
// have had a body. Middleware outside the guard has consumed it then, and the
// fingerprint of an empty body would make all payloads equal.
//
// A request of unknown length announces a body by its Content-Type or by its
// transfer coding; so one whose body really is empty must be sent with a length
// of zero. Lengths are not compared, because a decompressing middleware leaves
// the compressed length behind: a body that was consumed in part is not noticed.
func announcesBody(r *http.Request) bool {
	return r.ContentLength > 0 || len(r.PostForm) > 0 || r.MultipartForm != nil ||
		r.ContentLength < 0 && (r.Header.Get("Content-Type") != "" || len(r.TransferEncoding) > 0)
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
func peekBody(r *http.Request, limit int64) ([]byte, *problem.Problem) {
	if r.ContentLength > limit {
		return nil, problem.New(problem.BodyTooLarge, "")
	}
	var body []byte
	if r.Body != nil && r.Body != http.NoBody {
		var err error
		body, err = readAll(r.Body, nil, r.ContentLength, limit)
		rest := io.Reader(r.Body)
		if err != nil {
			rest = failingReader{err}
		}
		r.Body = &peekedBody{Reader: io.MultiReader(bytes.NewReader(body), rest), Closer: r.Body}
		if refusal := bodyProblem(body, err, limit); refusal != nil {
			return nil, refusal
		}
	}
	if len(body) == 0 && announcesBody(r) {
		return nil, consumedProblem()
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

// refusedBytes bounds how much of a refused request's body is read.
const refusedBytes = 1 << 20

// dispose takes care of the body of a request that is refused before the body
// was read. A server that closes a connection with unread bytes on it resets it,
// and the reset can overtake the response (RFC 9112, section 9.6). net/http
// guards against that only on connections that it meant to keep.
//
// A body of up to 1 MiB is read, so that the connection stays usable. Anything
// longer stays unread: net/http is told to close the connection gently.
func dispose(w http.ResponseWriter, r *http.Request, refusal *problem.Problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	lengthKnown := r.ContentLength >= 0 || refusal.Code != problem.BodyTooLarge // or it has been read to the limit
	clientWaits := r.Header.Get("Expect") != ""                                 // reading would ask the client to send it
	if lengthKnown && !clientWaits && r.ContentLength <= refusedBytes {
		if _, err := io.CopyN(io.Discard, r.Body, refusedBytes+1); errors.Is(err, io.EOF) {
			return
		}
	}
	closeGently(w)
}

// closeGently makes net/http end the connection as it does after a body that is
// too large: it stops sending, waits, and closes then. The only way to ask for it
// is a MaxBytesReader that meets its limit at the connection's own writer.
func closeGently(w http.ResponseWriter) {
	beyond := http.MaxBytesReader(connectionOf(w), io.NopCloser(strings.NewReader(".")), 0)
	_, _ = beyond.Read(make([]byte, 1))
}

// connectionOf returns the writer that all others wrap.
func connectionOf(w http.ResponseWriter) http.ResponseWriter {
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = wrapper.Unwrap()
	}
}
