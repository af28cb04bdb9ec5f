package idemmcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// The media types of stored responses.
const (
	resultType = "application/json; mcp=result"
	errorType  = "application/json; mcp=error"
)

// codeOfProblem is the code of JSON-RPC errors that carry a problem: the first of those
// that JSON-RPC 2.0 leaves to servers (section 5.1).
const codeOfProblem = -32000

// marker is the member of _meta that marks a replay.
const marker = "replayed"

// statusOf returns the HTTP status by which policies and classifiers know an error, of a
// tool or of its result: 422 where failure.Permanent wraps it, and otherwise 500.
func statusOf(err error) int {
	if failure.IsPermanent(err) {
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// respond writes a response for the engine to store. A response that could not be encoded
// is sent and not stored: its side effect has happened.
func respond(w http.ResponseWriter, status int, contentType string, body []byte, err error) {
	if err != nil {
		core.WentAround(w, status)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the response is not sent: reply sees the problem
}

// needsInput reports whether a result asks the client for input (SEP-2322). The same call
// with the input follows.
func needsInput(result *mcp.CallToolResult) bool {
	return result.NeedsInput() || result.InputRequests != nil
}

// withoutMarker returns the result without a marker, which a tool must not forge.
func withoutMarker(result *mcp.CallToolResult) *mcp.CallToolResult {
	if _, forged := result.Meta[marker]; !forged {
		return result
	}
	honest := *result
	honest.Meta = maps.Clone(result.Meta)
	delete(honest.Meta, marker)
	return &honest
}

// typedSince is the first version of the protocol whose results have a resultType.
const typedSince = "2026-07-28"

// newResult returns an empty result in the form that the SDK gives to a tool's result: by
// the call's version of the protocol it has a resultType, which only the SDK can set.
func newResult(call *mcp.CallToolRequest) *mcp.CallToolResult {
	result := new(mcp.CallToolResult)
	if version := call.ProtocolVersion(); version == "" || version >= typedSince {
		*result = completeResult()
	}
	return result
}

// completeResult is made once, because each decoding takes a buffer of 32 KiB.
var completeResult = sync.OnceValue(func() (result mcp.CallToolResult) {
	_ = json.Unmarshal([]byte(`{"resultType":"complete"}`), &result) // a constant
	result.Content = nil
	return result
})

// encoded returns a result as JSON, without the members that depend on the version of the
// client's protocol: the SDK adds them to each response.
func encoded(result *mcp.CallToolResult) ([]byte, error) {
	return json.Marshal(&mcp.CallToolResult{
		Meta: result.Meta, Content: result.Content, StructuredContent: result.StructuredContent,
		IsError: result.IsError, RequestState: result.RequestState,
	})
}

// readResponse returns a stored response. Only a RecoverFunc without Recovered gives
// another media type than those of this package.
func readResponse(call *mcp.CallToolRequest, mediaType string, status int, body []byte) (*mcp.CallToolResult, error) {
	var result *mcp.CallToolResult
	var wire *jsonrpc.Error
	var err error
	switch {
	case mediaType == errorType:
		wire = new(jsonrpc.Error)
		err = json.Unmarshal(body, wire)
	case mediaType != resultType && status >= http.StatusBadRequest:
		wire = &jsonrpc.Error{Code: codeOfProblem, Message: http.StatusText(status)}
		if json.Valid(body) {
			wire.Data = body
		}
	default:
		result, err = readResult(call, body)
	}
	if err != nil {
		wire = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("idemmcp: the stored response cannot be read: %v", err)}
	}
	if wire != nil {
		return nil, wire
	}
	return result, nil
}

// stored is a result as it is stored. Why not the SDK's type: that would decode the free
// parts of a result into maps, with every number as a float64.
type stored struct {
	Meta              mcp.Meta        `json:"_meta"`
	Content           json.RawMessage `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	IsError           bool            `json:"isError"`
	RequestState      string          `json:"requestState"`
}

// decode reads JSON. Numbers keep every digit.
func decode(text []byte, into any) error {
	if !json.Valid(text) { // a Decoder ignores what follows a value
		return json.Unmarshal(text, into) // returns what is wrong
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// readResult returns a stored result as the result of a call.
func readResult(call *mcp.CallToolRequest, body []byte) (*mcp.CallToolResult, error) {
	var read stored
	if err := decode(body, &read); err != nil {
		return nil, err
	}
	result := newResult(call)
	var err error
	if result.Content, err = readContent(read.Content); err != nil {
		return nil, err
	}
	if read.StructuredContent != nil {
		result.StructuredContent = read.StructuredContent
	}
	result.Meta, result.IsError, result.RequestState = read.Meta, read.IsError, read.RequestState
	return result, nil
}

// readContent decodes the content of a result, which may be absent.
func readContent(written json.RawMessage) ([]mcp.Content, error) {
	if len(written) == 0 {
		return []mcp.Content{}, nil
	}
	var metas [][2]mcp.Meta
	if bytes.Contains(written, []byte(`"_meta"`)) { // most contents have none
		var err error
		if written, metas, err = cutMetas(written); err != nil {
			return nil, err
		}
	}
	var of mcp.CallToolResult // it knows the types of content
	if err := json.Unmarshal(slices.Concat([]byte(`{"content":`), written, []byte("}")), &of); err != nil {
		return nil, err
	}
	for i, meta := range metas {
		setMeta(of.Content[i], meta[0], meta[1])
	}
	return of.Content, nil
}

// cutMetas removes the metadata of each content, and of its resource, and returns it: the SDK
// would make a float64 of each of its numbers, and refuse those beyond its range.
func cutMetas(written json.RawMessage) (rest json.RawMessage, metas [][2]mcp.Meta, err error) {
	var parts []map[string]any
	if err := decode(written, &parts); err != nil {
		return nil, nil, err
	}
	for _, part := range parts {
		resource, _ := part["resource"].(map[string]any)
		metas = append(metas, [2]mcp.Meta{cutMeta(part), cutMeta(resource)})
	}
	rest, err = json.Marshal(parts)
	return rest, metas, err
}

// setMeta puts the metadata of a content, and of its resource, back.
func setMeta(content mcp.Content, own, ofResource mcp.Meta) {
	switch content := content.(type) {
	case *mcp.TextContent:
		content.Meta = own
	case *mcp.ImageContent:
		content.Meta = own
	case *mcp.AudioContent:
		content.Meta = own
	case *mcp.ResourceLink:
		content.Meta = own
	case *mcp.EmbeddedResource:
		content.Meta = own
		if content.Resource != nil {
			content.Resource.Meta = ofResource
		}
	}
}

func cutMeta(part map[string]any) mcp.Meta {
	meta, _ := part["_meta"].(map[string]any)
	delete(part, "_meta")
	return meta
}

// Recovered returns the response of a policy.RecoverFunc, which found out the result of
// the abandoned attempt. The error says that the result is nil, needs input, or cannot be
// encoded.
//
//	return idemmcp.Recovered(&mcp.CallToolResult{StructuredContent: payment})
func Recovered(result *mcp.CallToolResult) (*policy.Response, error) {
	switch {
	case result == nil:
		return nil, errors.New("idemmcp: Recovered is given a nil result: give the tool's result")
	case needsInput(result):
		return nil, errors.New("idemmcp: Recovered is given a result that needs input: give the tool's last result")
	}
	body, err := encoded(withoutMarker(result))
	if err != nil {
		return nil, fmt.Errorf("idemmcp: the recovered result cannot be stored: %w", err)
	}
	status := http.StatusOK
	if result.IsError {
		status = http.StatusInternalServerError
	}
	return &policy.Response{Status: status, Header: http.Header{"Content-Type": {resultType}}, Body: body}, nil
}
