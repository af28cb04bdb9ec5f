package rpc

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekey/oncekey/adapters/internal/calls"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// Domain is the domain of the ErrorInfo in the engine's own errors. Its reason is the
// problem's code, such as in_progress.
const Domain = "oncekey"

// statusOf returns the status of a problem. Its details are an ErrorInfo, and a
// RetryInfo where the same call may succeed later.
func statusOf(p *problem.Problem) *status.Status {
	about := map[string]string{"type": p.Type}
	if len(p.Differs) > 0 {
		about["differs"] = strings.Join(p.Differs, ",")
	}
	if p.Others > 0 {
		about["others"] = strconv.Itoa(p.Others)
	}
	s := &status.Status{Code: int32(codeOfProblem(p)), Message: calls.Message(p)}
	s.Details = appendDetail(s.Details, &errdetails.ErrorInfo{Reason: p.Code, Domain: Domain, Metadata: about})
	if p.RetryAfter > 0 {
		s.Details = appendDetail(s.Details, &errdetails.RetryInfo{RetryDelay: durationpb.New(p.RetryAfter)})
	}
	return s
}

func appendDetail(details []*anypb.Any, detail proto.Message) []*anypb.Any {
	packed, err := anypb.New(detail)
	if err != nil { // only a text that is not UTF-8 can fail
		return details
	}
	return append(details, packed)
}

// DetailOf returns the first detail of a type, or nil.
func DetailOf[T proto.Message](s *status.Status) (detail T) {
	for _, packed := range s.GetDetails() {
		if opened, err := packed.UnmarshalNew(); err == nil {
			if found, is := opened.(T); is {
				return found
			}
		}
	}
	return detail
}

// writeProblem is the problem.Writer of guarded procedures.
func writeProblem(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	if direct, is := w.(*serving); is {
		direct.Own, direct.refused = false, true
	}
	w.Header().Del("Cache-Control") // a call has no cache
	w.Header().Del("Retry-After")   // the RetryInfo has it
	writeStatus(w, p.Status, statusOf(&p))
}

// marshal encodes a status. A byte of its text that is not UTF-8 becomes U+FFFD, as gRPC sends
// it, and the details go.
func marshal(s *status.Status) []byte {
	body, err := proto.Marshal(s)
	if err != nil {
		body, _ = proto.Marshal(&status.Status{Code: s.GetCode(), Message: string([]rune(s.GetMessage()))})
	}
	return body
}

func writeStatus(w http.ResponseWriter, httpStatus int, s *status.Status) {
	w.WriteHeader(httpStatus)
	_, _ = w.Write(marshal(s)) // a writer of this package or of core fails only when the response is not sent
}

// readStatus returns the error of a stored response. A RecoverFunc may have written
// another body than a google.rpc.Status.
func readStatus(httpStatus int, body []byte) *status.Status {
	s := new(status.Status)
	if err := proto.Unmarshal(body, s); err != nil || HTTPStatus(s.GetCode()) < http.StatusBadRequest {
		return &status.Status{Code: int32(cmp.Or(codes[httpStatus], code.Code_UNKNOWN)), Message: http.StatusText(httpStatus)}
	}
	return s
}

// Recovered returns the response of a policy.RecoverFunc: a message, or an error.
func Recovered(message proto.Message, failed *status.Status) (*policy.Response, error) {
	if HTTPStatus(failed.GetCode()) >= http.StatusBadRequest {
		return &policy.Response{Status: HTTPStatus(failed.GetCode()), Body: marshal(failed)}, nil
	}
	body, err := proto.Marshal(message)
	return &policy.Response{Status: http.StatusOK, Body: body}, err
}
