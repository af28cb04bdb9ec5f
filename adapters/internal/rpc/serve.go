package rpc

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekey/oncekey/adapters/internal/calls"
	"github.com/oncekey/oncekey/core"
)

// Call is a unary call to a guarded procedure.
type Call struct {
	Method *Method
	// Header has the metadata under canonical names. Serve changes it.
	Header http.Header
	// Host, Peer and TLS describe the connection for the Scope. All may be zero.
	Host, Peer string
	TLS        *tls.ConnectionState
	Message    proto.Message
	// Handle runs the handler.
	Handle func(ctx context.Context) Result
}

// Result is how a handler ended.
type Result struct {
	Message proto.Message // nil beside an error
	Err     error
	Status  *status.Status // of Err
	// Header and Trailer have the handler's metadata under canonical names.
	Header, Trailer http.Header
}

// Reply is the response for the client.
type Reply struct {
	// Own says that the client gets the handler's own message or error. Otherwise the
	// reply is Message, or Status if Message is nil.
	Own             bool
	Message         proto.Message
	Status          *status.Status
	Header, Trailer http.Header
}

// Replayed reports whether the reply is a stored response.
func (r *Reply) Replayed() bool { return r.Header[ReplayHeader] != nil }

// ReplayHeader is the metadata of a replayed response. Its value is "true".
const ReplayHeader = "Idempotent-Replay"

// Serve runs the handler of a call, or replays its stored response, or refuses the call.
// A panic of the handler is settled and continues.
func (g *Guard) Serve(ctx context.Context, call *Call) Reply {
	text := AppendText(make([]byte, 0, 256), call.Message.ProtoReflect(), call.Method.maxBytes)
	call.Header["Content-Type"] = []string{"application/json"}
	request := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: call.Method.procedure}, Pattern: call.Method.procedure,
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: call.Header, Host: call.Host, RemoteAddr: call.Peer, TLS: call.TLS,
		Body: &textBody{text}, ContentLength: int64(len(text)),
	}
	s := &serving{call: call, client: calls.Patient{Context: ctx}}
	g.engine.Serve(s, request.WithContext(s.client), call.Method.route, s)
	return s.reply(g.engine.ReplayHeader())
}

// textBody is a request body that drops the text once it is read: the engine keeps a copy,
// and a call may wait.
type textBody struct{ rest []byte }

func (b *textBody) Read(p []byte) (int, error) {
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) > 0 {
		return n, nil
	}
	b.rest = nil
	return n, io.EOF
}

func (b *textBody) Close() error { return nil }

// serving is one call on its way through the engine: the handler that the engine runs,
// and the writer to which the engine responds.
type serving struct {
	calls.Writer
	call    *Call
	client  calls.Patient
	ran     bool // the handler has begun
	refused bool // the response is a problem
}

var (
	_ http.Handler        = (*serving)(nil)
	_ http.ResponseWriter = (*serving)(nil)
)

// ServeHTTP runs the handler, and writes its response for the engine to store.
func (s *serving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.ran = true
	ctx, guarded, cancel := s.client.Limit(r.Context())
	defer cancel()
	result := s.call.Handle(ctx)
	calls.Mark(ctx, result.Err)
	if guarded && ctx.Err() != nil && isCutShort(result.Status) {
		return // the engine responds, as for an HTTP handler without a response
	}
	s.Own = true
	s.write(w, &result)
}

// isCutShort reports whether a handler has only passed on that its context ended.
func isCutShort(s *status.Status) bool {
	c := code.Code(s.GetCode())
	return c == code.Code_CANCELLED || c == code.Code_DEADLINE_EXCEEDED
}

// write writes the response of the handler.
func (s *serving) write(w http.ResponseWriter, result *Result) {
	header := w.Header()
	for name, values := range result.Header {
		if isMetadata(name) {
			header[name] = values
		}
	}
	for name, values := range result.Trailer {
		if isMetadata(name) {
			header[http.TrailerPrefix+name] = values
		}
	}
	if result.Err != nil {
		if result.Status.GetCode() == int32(code.Code_OK) { // neither a code nor a message
			result.Status = &status.Status{Code: int32(code.Code_UNKNOWN), Message: result.Err.Error()}
		}
		writeStatus(w, HTTPStatus(result.Status.GetCode()), result.Status)
		return
	}
	body, err := proto.Marshal(result.Message)
	if err != nil || result.Message == nil {
		core.WentAround(w, http.StatusOK) // the side effect happened, and its response cannot be stored
		return
	}
	_, _ = w.Write(body) // an error means that the response is not sent: reply sees the problem
}

// isMetadata reports whether a header is the handler's, and not one of HTTP or of the
// guard.
func isMetadata(name string) bool {
	switch name {
	case "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Trailer", "Transfer-Encoding", ReplayHeader:
		return false
	default:
		return true
	}
}

// reply returns the response that the engine wrote. marker is the header by which the
// engine marks replays.
func (s *serving) reply(marker string) Reply {
	r := Reply{Own: s.Own, Header: make(http.Header), Trailer: make(http.Header)}
	for name, values := range s.Header() {
		inner, isTrailer := strings.CutPrefix(name, http.TrailerPrefix)
		switch {
		case !isMetadata(inner), name == marker:
		case isTrailer:
			r.Trailer[inner] = values
		default:
			r.Header[name] = values
		}
	}
	switch {
	case s.Own:
		return r
	case !s.ran && !s.refused:
		r.Header[ReplayHeader] = []string{"true"}
	}
	if s.Status >= http.StatusBadRequest {
		r.Status = readStatus(s.Status, s.Body)
		return r
	}
	message := s.call.Method.response.New().Interface()
	if err := proto.Unmarshal(s.Body, message); err != nil {
		r.Status = &status.Status{Code: int32(code.Code_INTERNAL), Message: "oncekey: the stored response is not a " + string(message.ProtoReflect().Descriptor().FullName())}
		return r
	}
	r.Message = message
	return r
}
