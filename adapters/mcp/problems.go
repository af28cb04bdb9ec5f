package idemmcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/adapters/internal/calls"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
)

// writeProblem is the problem.Writer of guarded tools.
func writeProblem(w http.ResponseWriter, r *http.Request, p problem.Problem) {
	s := servingOf(r.Context())
	s.Own = false
	reword(&p, s)
	data := bodyOf(s.guard.engine, r, p)
	if s.guard.adcp {
		refusal := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: string(data)}}, StructuredContent: data}
		body, err := encoded(refusal)
		respond(w, p.Status, resultType, body, err)
		return
	}
	body, err := json.Marshal(&jsonrpc.Error{Code: codeOfProblem, Message: calls.Message(&p), Data: data})
	respond(w, p.Status, errorType, body, err) // texts and valid JSON always marshal
}

// reword names the places of the key, where the engine knows only its header.
func reword(p *problem.Problem, s *serving) {
	switch {
	case p.Code == problem.KeyInvalid && s.found.wrong != "":
		p.Error = s.found.wrong
	case p.Code == problem.KeyMissing && s.tool.keyField == "":
		names := make([]string, len(s.tool.keys.places))
		for i, place := range s.tool.keys.places {
			names[i] = place.String()
		}
		p.Error = "An idempotency key is required"
		p.Detail = fmt.Sprintf("Give a key that is new for every operation and the same for every retry of it, in one of: %s.", strings.Join(names, ", "))
	}
}

// bodyOf returns the JSON object that the engine writes for a problem, with the member
// retry_after in whole seconds where the same call may succeed later. A body in another
// form than a JSON object has no place in an error of JSON-RPC, and becomes RFC 9457.
func bodyOf(engine *core.Engine, r *http.Request, p problem.Problem) json.RawMessage {
	var written calls.Writer
	p.SetHeader(written.Header())
	engine.WriteProblem(&written, r, p)
	members := make(map[string]json.RawMessage)
	if json.Unmarshal(written.Body, &members) != nil || members == nil {
		written.Body = nil
		problem.Write(&written, r, p)
		_ = json.Unmarshal(written.Body, &members) // an object
	}
	if _, has := members["retry_after"]; p.RetryAfter > 0 && !has {
		members["retry_after"] = fmt.Appendf(nil, "%d", (p.RetryAfter+time.Second-1)/time.Second)
	}
	data, err := json.Marshal(members)
	if err != nil { // decoded just now
		panic(err)
	}
	return data
}
