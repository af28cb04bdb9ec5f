package idemmcp

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// errRefused is the error of an attempt whose result refuses the call for now.
var errRefused = errors.New("idemmcp: the result asks for a retry")

// codeOfTransport is the code of the SDK's own error for a call that its transport could not
// complete. Over HTTP the server may have got the call.
const codeOfTransport = -32005

// answerIn returns the server's error of JSON-RPC, or nil if the server did not answer.
func answerIn(err error) *jsonrpc.Error {
	answer, is := errors.AsType[*jsonrpc.Error](err)
	if !is || answer.Code == codeOfTransport {
		return nil
	}
	return answer
}

// repeats reports whether an attempt is repeated, and the wait that the server asks for.
func repeats(err error, result mcp.Result, tool func() *mcp.Tool) (asked time.Duration, again bool) {
	answer := answerIn(err)
	switch {
	case errors.Is(err, errRefused):
		return retryAfterOf(result), true
	case answer != nil:
		asked = retryAfterIn(answer.Data)
		return asked, asked > 0
	case errors.Is(err, mcp.ErrConnectionClosed), errors.Is(err, mcp.ErrSessionMissing):
		return 0, false // for this session
	default:
		return 0, mayRepeat(tool())
	}
}

// retryAfterOf returns the time after which a result says that the call may succeed, or 0.
func retryAfterOf(result mcp.Result) time.Duration {
	called, is := result.(*mcp.CallToolResult)
	if !is || !called.IsError {
		return 0
	}
	text, err := json.Marshal(called.StructuredContent)
	if err != nil { // decoded by the SDK
		return 0
	}
	return retryAfterIn(text)
}

// retryAfterIn reads the seconds of a guard's problem, at its root or in AdCP's envelope or in
// the first of AdCP's errors.
func retryAfterIn(text []byte) time.Duration {
	type problem struct {
		RetryAfter float64 `json:"retry_after"`
		Details    struct {
			RetryAfter float64 `json:"retry_after"`
		} `json:"details"`
	}
	var body struct {
		problem
		Envelope problem   `json:"adcp_error"`
		Errors   []problem `json:"errors"`
	}
	_ = json.Unmarshal(text, &body) // a member of another type leaves the others
	var seconds float64
	for _, p := range append([]problem{body.problem, body.Envelope}, body.Errors[:min(1, len(body.Errors))]...) {
		seconds = cmp.Or(seconds, p.RetryAfter, p.Details.RetryAfter)
	}
	return time.Duration(min(max(seconds, 0), 3600) * float64(time.Second))
}
