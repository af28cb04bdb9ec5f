package rpc

import (
	"cmp"
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/oncekey/oncekey/core/problem"
)

// statuses are the HTTP statuses by which policies and classifiers know the codes of
// handlers. They are those of google/rpc/code.proto, with one exception. Canceled is 499
// there, and package failure would store it as a final refusal. A handler returns it
// because something that it called was cut short, so that the outcome is unknown, as
// for 503.
var statuses = map[code.Code]int{
	code.Code_OK:                  http.StatusOK,
	code.Code_CANCELLED:           http.StatusServiceUnavailable,
	code.Code_UNKNOWN:             http.StatusInternalServerError,
	code.Code_INVALID_ARGUMENT:    http.StatusBadRequest,
	code.Code_DEADLINE_EXCEEDED:   http.StatusGatewayTimeout,
	code.Code_NOT_FOUND:           http.StatusNotFound,
	code.Code_ALREADY_EXISTS:      http.StatusConflict,
	code.Code_PERMISSION_DENIED:   http.StatusForbidden,
	code.Code_RESOURCE_EXHAUSTED:  http.StatusTooManyRequests,
	code.Code_FAILED_PRECONDITION: http.StatusBadRequest,
	code.Code_ABORTED:             http.StatusConflict,
	code.Code_OUT_OF_RANGE:        http.StatusBadRequest,
	code.Code_UNIMPLEMENTED:       http.StatusNotImplemented,
	code.Code_INTERNAL:            http.StatusInternalServerError,
	code.Code_UNAVAILABLE:         http.StatusServiceUnavailable,
	code.Code_DATA_LOSS:           http.StatusInternalServerError,
	code.Code_UNAUTHENTICATED:     http.StatusUnauthorized,
}

// HTTPStatus returns the HTTP status of a code, and 500 for an unknown code.
func HTTPStatus(c int32) int {
	return cmp.Or(statuses[code.Code(c)], http.StatusInternalServerError)
}

// codes are the codes of responses that have only an HTTP status, such as the one of a
// RecoverFunc. They follow the table of the gRPC project for such responses, and give the
// statuses that package core sends their own codes.
var codes = map[int]code.Code{
	http.StatusBadRequest:          code.Code_INVALID_ARGUMENT,
	http.StatusUnauthorized:        code.Code_UNAUTHENTICATED,
	http.StatusForbidden:           code.Code_PERMISSION_DENIED,
	http.StatusNotFound:            code.Code_NOT_FOUND,
	http.StatusConflict:            code.Code_FAILED_PRECONDITION,
	http.StatusUnprocessableEntity: code.Code_FAILED_PRECONDITION,
	http.StatusTooManyRequests:     code.Code_RESOURCE_EXHAUSTED,
	http.StatusNotImplemented:      code.Code_UNIMPLEMENTED,
	http.StatusBadGateway:          code.Code_UNAVAILABLE,
	http.StatusServiceUnavailable:  code.Code_UNAVAILABLE,
	http.StatusGatewayTimeout:      code.Code_DEADLINE_EXCEEDED,
	http.StatusInternalServerError: code.Code_INTERNAL,
}

// codeOfProblem returns the code for a problem of the engine. Unavailable and Aborted
// are temporary, and have a RetryInfo. FailedPrecondition and InvalidArgument are final.
// ResourceExhausted is temporary with a RetryInfo, for scope_limited.
func codeOfProblem(p *problem.Problem) code.Code {
	switch p.Code {
	case problem.PrincipalMissing:
		return code.Code_UNAUTHENTICATED
	case problem.KeyMissing, problem.KeyInvalid, problem.BodyUnreadable:
		return code.Code_INVALID_ARGUMENT
	case problem.BodyTooLarge, problem.ScopeLimited:
		return code.Code_RESOURCE_EXHAUSTED
	case problem.InProgress, problem.KeyReused, problem.NotReplayable, problem.KeyExpired, problem.OutcomeUnknown:
		if p.RetryAfter > 0 {
			return code.Code_ABORTED
		}
		return code.Code_FAILED_PRECONDITION
	case problem.StoreUnavailable, problem.ShuttingDown, problem.HandlerCancelled, problem.NotConfirmed:
		return code.Code_UNAVAILABLE
	default: // handler_failed, rolled_back and wrong_setup: 500
		return code.Code_INTERNAL
	}
}
