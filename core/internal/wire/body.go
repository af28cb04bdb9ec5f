package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/oncekey/oncekey/core/problem"
)

// Buffer is a pooled buffer for small request bodies.
type Buffer [1 << 10]byte

var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// NewBuffer returns a buffer for ReadBody. Its owner calls Free when the body is not
// used any more.
func NewBuffer() *Buffer { return buffers.Get().(*Buffer) }

// Free gives the buffer back.
func (b *Buffer) Free() { buffers.Put(b) }

// ReadBody reads the whole body of at most limit bytes, into the buffer if the body fits.
// The problem is BodyTooLarge, or BodyUnreadable for an error and for a body that was
// read before.
func ReadBody(r *http.Request, buffer *Buffer, limit int64) ([]byte, *problem.Problem) {
	if r.ContentLength > limit {
		return nil, problem.New(problem.BodyTooLarge, "")
	}
	var body []byte
	if r.Body != nil && r.Body != http.NoBody {
		var err error
		body, err = readAll(r.Body, buffer[:0], r.ContentLength, limit)
		if refusal := bodyProblem(body, err, limit); refusal != nil {
			return nil, refusal
		}
	}
	if len(body) == 0 && announcesBody(r) {
		return nil, consumedProblem()
	}
	return body, nil
}

// bodyProblem returns the problem for the results of readAll, or nil.
func bodyProblem(body []byte, err error, limit int64) *problem.Problem {
	switch _, tooLarge := errors.AsType[*http.MaxBytesError](err); {
	case tooLarge, int64(len(body)) > limit: // longer than Content-Length
		return problem.New(problem.BodyTooLarge, "")
	case err != nil:
		return problem.New(problem.BodyUnreadable, "")
	default:
		return nil
	}
}

func consumedProblem() *problem.Problem {
	return problem.New(problem.BodyUnreadable, "No request body reached the idempotency guard: it was read before, or it is empty and has no Content-Length")
}

// announcesBody reports whether a request without unread bytes seems to have had a
// body. Then middleware outside the guard has consumed the body, and the fingerprint
// of an empty body would make all payloads equal.
//
// A request of unknown length announces a body by its Content-Type or by its
// transfer coding. A request whose body is really empty must therefore be sent with
// a length of zero. Lengths are not compared, because a decompressing middleware
// keeps the compressed length: the guard does not notice a partly consumed body.
func announcesBody(r *http.Request) bool {
	return r.ContentLength > 0 || len(r.PostForm) > 0 || r.MultipartForm != nil ||
		r.ContentLength < 0 && (r.Header.Get("Content-Type") != "" || len(r.TransferEncoding) > 0)
}

// readAll reads to the end, or beyond the limit, or to an error. The length is the
// client's claim, or negative.
func readAll(r io.Reader, buffer []byte, length, limit int64) ([]byte, error) {
	if int64(cap(buffer)) <= length { // 1 byte more, to see the end
		buffer = reallocated(buffer, length, limit)
	}
	for int64(len(buffer)) <= limit {
		if len(buffer) == cap(buffer) {
			buffer = reallocated(buffer, length, limit)
		}
		n, err := r.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case err == io.EOF: // as io.ReadAll: an error that wraps it has cut the body off
			return buffer, nil
		case err != nil:
			return buffer, err
		}
	}
	return buffer, nil
}

// reallocated returns the bytes read so far in a larger buffer, of exactly the size of
// bufferSize. Package slices would round the size up by as much as a quarter.
func reallocated(read []byte, length, limit int64) []byte {
	return append(slices.Grow([]byte(nil), int(bufferSize(int64(len(read)), length, limit))), read...)
}

const (
	// trustedBytes is the largest announced length for which a whole buffer is allocated
	// before the first byte has arrived.
	trustedBytes = 64 << 10
	// bufferGrowth is the number of times that a further buffer is larger than the bytes
	// that have arrived.
	bufferGrowth = 8
)

// bufferSize returns the size of the buffer for a body of which so many bytes have been
// read. A client that announces a length and sends nothing costs at most trustedBytes.
// The sizes below a longer announced length are an eighth of it, an eighth of that, and
// so on: all buffers together take 1.15 times the length, and at most eight times the
// bytes that have arrived. A buffer for an unknown length doubles.
func bufferSize(read, length, limit int64) int64 {
	size := length + 1 // to see the end
	if read >= size {  // the length is unknown or wrong
		return min(max(bytes.MinRead, 2*read), limit) + 1
	}
	for size > trustedBytes && size/bufferGrowth > read {
		size = size/bufferGrowth + 1
	}
	return size
}

// PeekBody reads the body as ReadBody does, into its own memory, and leaves the request
// unread.
func PeekBody(r *http.Request, limit int64) ([]byte, *problem.Problem) {
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

// peekedBody is a body with the bytes that PeekBody has read in front.
type peekedBody struct {
	io.Reader
	io.Closer
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// RestoredBody lets a handler read a body that the guard has read before. After Close,
// reads fail, because the buffer may belong to another request. The zero value is empty.
// A RestoredBody is safe for concurrent use.
type RestoredBody struct {
	mu   sync.Mutex
	rest []byte
	over bool // reads fail
}

// In returns a copy of the request with the restored body and the context ctx. A nil body
// leaves the request's own.
func (b *RestoredBody) In(r *http.Request, ctx context.Context, body []byte) *http.Request { //nolint:revive // the request comes first, as the result
	r = r.WithContext(ctx)
	if body != nil {
		b.rest = body
		r.Body = b
	}
	return r
}

// Read implements io.Reader.
func (b *RestoredBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return 0, http.ErrBodyReadAfterClose
	case len(b.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close makes later reads fail, as net/http's server does after the handler.
func (b *RestoredBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest, b.over = nil, true
	return nil
}

// refusedBytes bounds the bytes that are read of a refused request's body.
const refusedBytes = 1 << 20

// Dispose consumes the body of a request that is refused before its body was read.
// Why: a server that closes a connection with unread bytes resets the connection,
// and the reset can overtake the response (RFC 9112, section 9.6). net/http prevents
// that only on connections that net/http keeps open.
//
// A body of up to 1 MiB is read, so that the connection stays usable. A longer body
// stays unread, and net/http closes the connection gently.
func Dispose(w http.ResponseWriter, r *http.Request, refusal *problem.Problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	lengthKnown := r.ContentLength >= 0 || refusal.Code != problem.BodyTooLarge // else the body was read to the limit
	clientWaits := r.Header.Get("Expect") != ""                                 // a read would make the client send the body
	if lengthKnown && !clientWaits && r.ContentLength <= refusedBytes {
		if _, err := io.CopyN(io.Discard, r.Body, refusedBytes+1); errors.Is(err, io.EOF) {
			return
		}
	}
	closeGently(w)
}

// closeGently makes net/http end the connection as after a body that is too large:
// net/http stops sending, waits, and then closes. The only API for that is a
// MaxBytesReader that reaches its limit with the connection's own writer.
func closeGently(w http.ResponseWriter) {
	beyond := http.MaxBytesReader(connectionOf(w), io.NopCloser(strings.NewReader(".")), 0)
	_, _ = beyond.Read(make([]byte, 1))
}

// DropCodings removes Accept-Encoding from the handler's request, because an encoded
// response would be replayed to clients that do not accept the coding. The header is
// copied, because outer middleware still reads the original.
func DropCodings(guarded *http.Request) {
	if _, accepts := guarded.Header["Accept-Encoding"]; accepts {
		guarded.Header = maps.Clone(guarded.Header)
		delete(guarded.Header, "Accept-Encoding")
	}
}

// HandBack gives the original the pattern that a router inside of the guard has found, which
// middleware outside reads, as it does without a guard. It removes the files of a form that
// a handler has parsed: net/http removes only files of the server's own request, and not of copies.
func HandBack(guarded, original *http.Request) {
	original.Pattern = guarded.Pattern
	if form := guarded.MultipartForm; form != nil && form != original.MultipartForm {
		_ = form.RemoveAll() // net/http ignores the error too: the client cannot act on it
	}
}
