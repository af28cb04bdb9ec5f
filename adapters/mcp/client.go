package idemmcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/oncekey/oncekey/adapters/internal/outgoing"
)

// ClientOptions are the options of a client. A zero field means the default.
type ClientOptions struct {
	// KeyIn is the place of the key: InMeta or InArguments. A key in the arguments is sent to
	// the tools whose input schema has the place's first member, and to no other tool. A call
	// with another value than an object around the key gets none either.
	// Default InMeta("idempotency-key").
	KeyIn KeyPlace
	// MaxAttempts includes the first attempt. With 1, calls get keys and are never
	// repeated. Default 8.
	MaxAttempts int
	// MaxTime bounds all attempts and waits. An earlier deadline of the context takes
	// precedence. Default 2 minutes.
	MaxTime time.Duration
	// AttemptTimeout bounds one attempt, with the time in which a user gives input that the
	// tool asks for. Default 30 seconds.
	AttemptTimeout time.Duration
	// Backoff is the wait after the first attempt, without jitter, and doubles with each
	// attempt. MaxBackoff is the longest wait. Default 200 milliseconds and 30 seconds.
	Backoff, MaxBackoff time.Duration
	// OnRetry is called before every wait, on the goroutine of the call. It must be safe
	// for concurrent use. Default none.
	OnRetry func(Retry)
}

// Retry describes a failed attempt that will be repeated.
type Retry struct {
	// Tool is the name of the tool, and Key the key of all attempts, or empty.
	Tool, Key string
	// Attempts is the number of attempts so far.
	Attempts int
	// Err is the error of the last attempt.
	Err error
	// Wait is the time until the next attempt.
	Wait time.Duration
}

// UnansweredError reports a call whose outcome is not known: the tool may have run. When
// the session is lost, connect again and repeat the call with the same arguments under
// WithKey(ctx, e.Key). A new key could run the tool a second time.
type UnansweredError struct {
	// Tool is the name of the tool, and Key the key of the call, or empty.
	Tool, Key string
	// Err is the error of the last attempt.
	Err error
}

// Error names the tool, and not the key, which entitles to the response.
func (e *UnansweredError) Error() string {
	return fmt.Sprintf("idemmcp: no answer to %s, which may have run: %v", e.Tool, e.Err)
}

// Unwrap returns Err.
func (e *UnansweredError) Unwrap() error { return e.Err }

type givenKey struct{}

// WithKey gives the calls in a context this key, in place of a new one: for a call that is
// repeated on another session or by another process.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, givenKey{}, key)
}

// WithCall names a call, so that several calls of one guarded handler to one tool get
// different keys. The name must be the same in every run of the handler: take the name from
// the data ("line-3"), not from a counter or a clock. Outside of a guarded handler the name
// has no effect, because every call there has its own key.
func WithCall(ctx context.Context, name string) context.Context { return outgoing.WithCall(ctx, name) }

// Send returns the mcp.Middleware of a client, which gives each call of a tool one key for
// all its attempts, and repeats the attempts that may be repeated:
//
//	send, err := idemmcp.Send(idemmcp.ClientOptions{})
//	client.AddSendingMiddleware(send)
//
// The key is that of WithKey, or the one that the caller has put into KeyIn or one of
// DefaultKeyPlaces. Within a guarded handler it is derived from the handler's key (see
// WithCall), and has no time, so that a tool with a policy.KeyAge refuses it. Otherwise it
// is a UUID of version 7. A tool with readOnlyHint gets none. Arguments are encoded once, so that
// all attempts are equal.
//
// A call that the server refuses for now is repeated: an error or a result with retry_after,
// as a guard's, after that time and up to MaxBackoff. A call without an answer is repeated
// if its tool has idempotentHint or readOnlyHint, as a guard's tools that require a key
// have: another server would run the tool twice. Every other answer is final. Send reads
// the tools' hints in the lists that the program asks for, and lists the tools of a session
// itself when it meets an unknown one.
//
// If no attempt is answered, the error is an *UnansweredError.
func Send(o ClientOptions) (mcp.Middleware, error) {
	limits, err := outgoing.Limits{
		MaxAttempts: o.MaxAttempts, MaxTime: o.MaxTime, AttemptTimeout: o.AttemptTimeout, Backoff: o.Backoff, MaxBackoff: o.MaxBackoff,
	}.Complete()
	if err != nil {
		return nil, fmt.Errorf("idemmcp: %w", err)
	}
	if o.KeyIn == (KeyPlace{}) {
		o.KeyIn = InMeta("idempotency-key")
	}
	if err := o.KeyIn.check(); err != nil {
		return nil, fmt.Errorf("idemmcp: KeyIn: %w", err)
	}
	if o.KeyIn.of == header {
		return nil, errors.New("idemmcp: KeyIn is a header, which a call cannot choose: give InMeta or InArguments")
	}
	if o.KeyIn.of == arguments && strings.Trim(o.KeyIn.name, pathLetters) != "" {
		return nil, fmt.Errorf("idemmcp: KeyIn is %s: give a path of letters, digits, _, - and dots", o.KeyIn)
	}
	if o.OnRetry == nil {
		o.OnRetry = func(Retry) {}
	}
	places := append(defaultPlaces(), o.KeyIn)
	c := &client{ClientOptions: o, limits: limits, keys: newKeyFinder(places, ""), lists: newToolLists(limits.AttemptTimeout)}
	return c.middleware, nil
}

// pathLetters are the characters that sjson reads as they are.
const pathLetters = "_-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

type client struct {
	ClientOptions
	limits outgoing.Limits
	keys   *keyFinder
	lists  *toolLists
}

func (c *client) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		session, _ := request.GetSession().(*mcp.ClientSession)
		if params, is := request.GetParams().(*mcp.CallToolParams); is && session != nil {
			return c.call(ctx, next, session, params)
		}
		result, err := next(ctx, method, request)
		if listed, is := result.(*mcp.ListToolsResult); is && err == nil && session != nil {
			c.lists.learn(session, listed.Tools)
		}
		return result, err
	}
}

// call makes the attempts of a call.
func (c *client) call(ctx context.Context, next mcp.MethodHandler, session *mcp.ClientSession, params *mcp.CallToolParams) (mcp.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limits.MaxTime) // for the list of tools too
	defer cancel()
	tool := c.lists.of(ctx, session, params.Name)
	keyed, key, err := c.withKey(ctx, session, tool, params)
	if err != nil {
		return nil, err
	}
	request := &mcp.ClientRequest[*mcp.CallToolParams]{Session: session, Params: keyed}
	var result mcp.Result
	err = c.limits.Do(ctx, func(ctx context.Context) (err error) {
		if result, err = next(ctx, callTool, request); err == nil && retryAfterOf(result) > 0 {
			return errRefused
		}
		return err
	}, func(err error) (time.Duration, bool) {
		return repeats(err, result, func() *mcp.Tool { return c.lists.of(ctx, session, params.Name) }) // the first list may have failed
	}, func(sent int, err error, wait time.Duration) {
		c.OnRetry(Retry{Tool: params.Name, Key: key, Attempts: sent, Err: err, Wait: wait})
	})
	switch {
	case err == nil, errors.Is(err, errRefused):
		return result, nil
	case answerIn(err) != nil:
		return nil, err
	default:
		return nil, &UnansweredError{Tool: params.Name, Key: key, Err: err}
	}
}

// withKey returns the params of all attempts, and their key.
func (c *client) withKey(ctx context.Context, session *mcp.ClientSession, tool *mcp.Tool, params *mcp.CallToolParams) (*mcp.CallToolParams, string, error) {
	text, err := json.Marshal(params.Arguments)
	if err != nil {
		return nil, "", fmt.Errorf("idemmcp: the arguments of %s cannot be encoded: %w", params.Name, err)
	}
	found := c.keys.find(&mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Meta: params.Meta, Arguments: text}})
	if found.wrong != "" {
		return nil, "", fmt.Errorf("idemmcp: the call of %s: %s", params.Name, found.wrong)
	}
	keyed, key := *params, found.key
	if !found.given && c.isKeyed(tool, text) {
		if key, _ = ctx.Value(givenKey{}).(string); key == "" {
			key, _ = outgoing.NewKey(ctx, "TOOL "+nameOf(session)+" "+params.Name)
		}
		if c.KeyIn.of == meta {
			keyed.Meta = maps.Clone(params.Meta)
			if keyed.Meta == nil {
				keyed.Meta = make(mcp.Meta, 1)
			}
			keyed.Meta[c.KeyIn.name] = key
		} else if text, err = sjson.SetBytes(text, c.KeyIn.name, key); err != nil {
			return nil, "", fmt.Errorf("idemmcp: the key cannot be put into the arguments of %s: %w", params.Name, err)
		}
	}
	keyed.Arguments = json.RawMessage(text)
	return &keyed, key, nil
}

// isKeyed reports whether a call of a tool with these arguments gets a key.
func (c *client) isKeyed(tool *mcp.Tool, arguments []byte) bool {
	return !isReadOnly(tool) && (c.KeyIn.of == meta || takes(tool, c.KeyIn.name) && hasRoom(arguments, c.KeyIn.name))
}

// hasRoom reports whether a member can be added without a change of another one: what is
// around it is an object, null or absent.
func hasRoom(arguments []byte, path string) bool {
	return !slices.ContainsFunc(pathsAround(path), func(around string) bool {
		found := gjson.GetBytes(arguments, around)
		return found.Type != gjson.Null && !found.IsObject()
	})
}

// nameOf names the server of a session.
func nameOf(session *mcp.ClientSession) string {
	if begun := session.InitializeResult(); begun != nil && begun.ServerInfo != nil {
		return begun.ServerInfo.Name
	}
	return ""
}

// takes reports whether the tool's input schema has the first member of a path.
func takes(tool *mcp.Tool, path string) bool {
	if tool == nil {
		return false
	}
	first, _, _ := strings.Cut(path, ".")
	text, err := json.Marshal(tool.InputSchema)
	if err != nil {
		return false
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(text, &schema)
	_, has := schema.Properties[first]
	return has
}
