package idemgrpc

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekey/oncekey/adapters/internal/rpc"
)

// newCall describes the call of a context.
func newCall(ctx context.Context) *rpc.Call {
	incoming, _ := metadata.FromIncomingContext(ctx)
	call := &rpc.Call{Header: headerOf(incoming)}
	if host := incoming[":authority"]; len(host) > 0 {
		call.Host = host[0]
	}
	if client, known := peer.FromContext(ctx); known {
		if client.Addr != nil {
			call.Peer = client.Addr.String()
		}
		if secured, is := client.AuthInfo.(credentials.TLSInfo); is {
			call.TLS = &secured.State
		}
	}
	return call
}

// headerOf returns metadata as a header of HTTP. Binary values are in base64, as on the
// wire.
func headerOf(md metadata.MD) http.Header {
	header := make(http.Header, len(md)+1)
	for name, values := range md {
		if strings.HasPrefix(name, ":") {
			continue
		}
		if isBinary(name) {
			values = mapped(values, func(raw string) string { return base64.StdEncoding.EncodeToString([]byte(raw)) })
		}
		header[http.CanonicalHeaderKey(name)] = values
	}
	return header
}

// metadataOf is the inverse of headerOf.
func metadataOf(header http.Header) metadata.MD {
	md := make(metadata.MD, len(header))
	for name, values := range header {
		name = strings.ToLower(name)
		if isBinary(name) {
			values = mapped(values, decoded)
		}
		md[name] = values
	}
	return md
}

func isBinary(name string) bool { return strings.HasSuffix(name, "-bin") }

// decoded reads base64 with and without padding, because Connect writes it without.
func decoded(text string) string {
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil { // a damaged record
		return ""
	}
	return string(raw)
}

func mapped(values []string, change func(string) string) []string {
	changed := make([]string, len(values))
	for i, value := range values {
		changed[i] = change(value)
	}
	return changed
}

// send gives the transport the metadata of a reply. An interceptor outside of the guard may
// have sent the header already: the reply then comes without its own, because the client
// needs it more. A stream is nil where a test calls the interceptor without a server.
func send(stream grpc.ServerTransportStream, reply *rpc.Reply) {
	if stream == nil {
		return
	}
	trailer := metadataOf(reply.Trailer)
	if reply.Status != nil && reply.Replayed() {
		trailer.Set(rpc.ReplayHeader, "true") // only a trailer tells a client that the error is not its connection's
	}
	for _, detail := range status.FromProto(reply.Status).Details() {
		// gRPC's own retries wait for as long as the server says (gRFC A6).
		if retry, is := detail.(*errdetails.RetryInfo); is && !reply.Replayed() {
			trailer.Set("grpc-retry-pushback-ms", strconv.FormatInt(retry.GetRetryDelay().AsDuration().Milliseconds(), 10))
		}
	}
	_ = stream.SetHeader(metadataOf(reply.Header))
	_ = stream.SetTrailer(trailer)
}

// heldStream holds the metadata of a handler until its response is stored.
type heldStream struct {
	grpc.ServerTransportStream
	mu      sync.Mutex
	header  metadata.MD
	trailer metadata.MD
	sent    bool // the handler has called SendHeader
	ended   bool
}

var errTooLate = status.Error(codes.Internal, "idemgrpc: the header was sent before, or the handler has returned")

// Method implements grpc.ServerTransportStream.
func (h *heldStream) Method() string {
	if h.ServerTransportStream == nil {
		return ""
	}
	return h.ServerTransportStream.Method()
}

// SetHeader implements grpc.ServerTransportStream.
func (h *heldStream) SetHeader(md metadata.MD) error { return h.setHeader(md, false) }

// SendHeader implements grpc.ServerTransportStream.
func (h *heldStream) SendHeader(md metadata.MD) error { return h.setHeader(md, true) }

func (h *heldStream) setHeader(md metadata.MD, last bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sent || h.ended {
		return errTooLate
	}
	h.header, h.sent = metadata.Join(h.header, md), last
	return nil
}

// SetTrailer implements grpc.ServerTransportStream.
func (h *heldStream) SetTrailer(md metadata.MD) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return errTooLate
	}
	h.trailer = metadata.Join(h.trailer, md)
	return nil
}

// result returns how the handler ended, without its error.
func (h *heldStream) result(response any, err error) rpc.Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	message, _ := response.(proto.Message)
	return rpc.Result{Message: message, Status: statusOf(err), Header: headerOf(h.header), Trailer: headerOf(h.trailer)}
}

// statusOf returns the status that gRPC's server sends for an error, or nil.
func statusOf(err error) *spb.Status {
	s, known := status.FromError(err)
	if !known {
		s = status.FromContextError(err)
	}
	return s.Proto()
}
