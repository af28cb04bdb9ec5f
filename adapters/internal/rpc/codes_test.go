package rpc

import (
	"net/http"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Aborted and Unavailable are temporary for every client of gRPC, and all other codes of
// the engine are final: a client that knows only codes acts as one that reads RetryInfo.
func TestTemporaryProblemsHaveTemporaryCodes(t *testing.T) {
	t.Parallel()
	for _, reason := range problem.Codes() {
		p := problem.New(reason, "")
		s := statusOf(p)
		c := code.Code(s.GetCode())
		temporary := c == code.Code_ABORTED || c == code.Code_UNAVAILABLE || reason == problem.ScopeLimited
		if retry := DetailOf[*errdetails.RetryInfo](s); retry.GetRetryDelay().AsDuration() != p.RetryAfter || temporary != (p.RetryAfter > 0) {
			t.Errorf("%s has the code %v and the RetryInfo %v, want the time %v", reason, c, retry, p.RetryAfter)
		}
		if info := DetailOf[*errdetails.ErrorInfo](s); info.GetReason() != reason || info.GetDomain() != Domain || s.GetMessage() == "" {
			t.Errorf("%s is %v", reason, s)
		}
	}
}

// Every code has a status, and a response of HTTP has a code that is no success.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for number := range code.Code_name {
		testkit.Equal(t, HTTPStatus(number) < http.StatusBadRequest, number == 0, "%v has the status", code.Code(number))
	}
	testkit.Equal(t, HTTPStatus(99), http.StatusInternalServerError, "an unknown code is no failure")
	for httpStatus := http.StatusBadRequest; httpStatus < 600; httpStatus++ {
		for name, body := range map[string][]byte{"text": []byte("no status"), "empty": nil} {
			if s := readStatus(httpStatus, body); HTTPStatus(s.GetCode()) < http.StatusBadRequest || s.GetCode() == 0 {
				t.Errorf("the %s response %d is %v", name, httpStatus, s)
			}
		}
	}
	want := &status.Status{Code: int32(code.Code_NOT_FOUND), Message: "no"}
	body, err := proto.Marshal(want)
	testkit.Must(t, err)
	if got := readStatus(http.StatusTeapot, body); !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A text that is not UTF-8 is as readable as gRPC would make it, and the outcome is known.
func TestRecoveredErrorThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	found, err := Recovered(nil, &status.Status{Code: int32(code.Code_NOT_FOUND), Message: "no \xff"})
	testkit.Must(t, err)
	if s := readStatus(found.Status, found.Body); s.GetMessage() != "no \uFFFD" || s.GetCode() != int32(code.Code_NOT_FOUND) {
		t.Errorf("got %v", s)
	}
}
