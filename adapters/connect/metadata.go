package idemconnect

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"syscall"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/oncekey/oncekey/adapters/internal/rpc"
)

// handlerInfo has the headers and trailers that handlers may set through the context, as
// handlers of connect's simple API do.
type handlerInfo struct{ header, trailer noted }

// noted is a header and its state before the handler ran.
type noted struct{ now, before http.Header }

func noteInfo(ctx context.Context) handlerInfo {
	info, known := connect.CallInfoForHandlerContext(ctx)
	if !known { // a test calls the interceptor without a handler
		return handlerInfo{noted{now: make(http.Header)}, noted{now: make(http.Header)}}
	}
	note := func(h http.Header) noted { return noted{h, h.Clone()} }
	return handlerInfo{note(info.ResponseHeader()), note(info.ResponseTrailer())}
}

// restore removes the changes of the handler, because its response is not sent. The values
// of a reply replace those that were set outside of the guard.
func (n noted) restore(sent http.Header) {
	clear(n.now)
	for name, values := range n.before {
		if sent[name] == nil {
			n.now[name] = values
		}
	}
}

// addChanges adds the values that the handler has set.
func (n noted) addChanges(h http.Header) {
	for name, values := range n.now {
		if !slices.Equal(values, n.before[name]) {
			h[name] = slices.Clone(values)
		}
	}
}

// addMerged adds the header of a response, as connect merges it.
func (n noted) addMerged(h, response http.Header) {
	for name, values := range response {
		h[name] = slices.Concat(n.now[name], values)
	}
}

// retain removes the changes of the handler that the guard does not send, such as a
// forged mark of a replay.
func (n noted) retain(sent http.Header) {
	for name, values := range n.now {
		switch {
		case sent[name] != nil, slices.Equal(values, n.before[name]):
		case n.before[name] != nil:
			n.now[name] = n.before[name]
		default:
			delete(n.now, name)
		}
	}
}

// addMissing adds the headers that the guard has set to those of a response.
func (n noted) addMissing(response, sent http.Header) {
	for name, values := range sent {
		if response[name] == nil && n.now[name] == nil {
			response[name] = values
		}
	}
}

// result returns how the handler ended. The metadata of an error are trailers, as in
// gRPC.
func (i *handlerInfo) result(response connect.AnyResponse, err error) rpc.Result {
	r := rpc.Result{Err: err, Status: statusOf(err), Header: make(http.Header), Trailer: make(http.Header)}
	i.header.addChanges(r.Header)
	i.trailer.addChanges(r.Trailer)
	if failed := new(connect.Error); errors.As(err, &failed) && !connect.IsWireError(err) {
		addAll(r.Trailer, metaOf(failed)) // connect does not forward those of another server's error
	}
	if err == nil && response != nil {
		r.Message, _ = response.Any().(proto.Message)
		i.header.addMerged(r.Header, response.Header())
		i.trailer.addMerged(r.Trailer, response.Trailer())
	}
	return r
}

// metaOf returns the metadata of an error. Meta writes to an error without any, and
// handlers may share an error.
func metaOf(failed *connect.Error) http.Header {
	own := *failed
	return own.Meta()
}

// withoutMark returns a handler's error without a forged mark of a replay.
func withoutMark(err error) error {
	failed := new(connect.Error)
	if !errors.As(err, &failed) || connect.IsWireError(err) || metaOf(failed)[rpc.ReplayHeader] == nil {
		return err
	}
	own := connect.NewError(failed.Code(), failed.Unwrap())
	for _, detail := range failed.Details() {
		own.AddDetail(detail)
	}
	maps.Copy(own.Meta(), metaOf(failed))
	delete(own.Meta(), rpc.ReplayHeader)
	return own
}

// statusOf returns the status of a handler's error, or nil. connect sends the same.
func statusOf(err error) *status.Status {
	failed := new(connect.Error)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
	case errors.Is(err, context.Canceled):
		failed = connect.NewError(connect.CodeCanceled, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		failed = connect.NewError(connect.CodeDeadlineExceeded, err)
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		failed = connect.NewError(connect.CodeCanceled, err)
	default:
		failed = connect.NewError(connect.CodeUnknown, err)
	}
	s := &status.Status{Code: int32(failed.Code()), Message: failed.Message()}
	for _, detail := range failed.Details() {
		s.Details = append(s.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + detail.Type(), Value: detail.Bytes()})
	}
	return s
}

// statusAtClient returns the status of an error that a client got, or nil for a replay. A replay that was cut off is no error of
// the wire, and has the mark too.
func statusAtClient(err error) *status.Status {
	failed := new(connect.Error)
	if errors.As(err, &failed) && connect.IsWireError(err) && metaOf(failed).Get(rpc.ReplayHeader) == "true" {
		return nil
	}
	return statusOf(err)
}

// errorOf returns the error of a reply, with its trailers and the mark of a replay, which it takes from the header.
func errorOf(reply *rpc.Reply) error {
	failed := connect.NewError(connect.Code(reply.Status.GetCode()), errors.New(reply.Status.GetMessage()))
	for _, packed := range reply.Status.GetDetails() {
		if detail, err := connect.NewErrorDetail(packed); err == nil {
			failed.AddDetail(detail)
		}
	}
	addAll(failed.Meta(), reply.Trailer)
	if reply.Replayed() {
		failed.Meta()[rpc.ReplayHeader] = reply.Header[rpc.ReplayHeader]
		delete(reply.Header, rpc.ReplayHeader)
	}
	return failed
}

func addAll(to, from http.Header) {
	for name, values := range from {
		to[name] = append(to[name], values...)
	}
}
