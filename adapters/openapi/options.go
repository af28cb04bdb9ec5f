package openapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
)

// Option changes the description.
type Option func(*settings)

type settings struct {
	replayHeader, keyHeader, expiryHeader string
	expires                               bool // ExpiryHeader was given
	write                                 problem.Writer
	writes                                bool // ProblemWriter was given
	echoes                                bool // KeyEcho was given
	limits                                bool // ScopeLimit was given
}

// ReplayHeader names the header that marks a replayed response, as
// core.WithReplayHeader does for the engine. Default X-Idempotent-Replay.
func ReplayHeader(name string) Option {
	return func(s *settings) { s.replayHeader = http.CanonicalHeaderKey(name) }
}

// KeyHeader names the header that carries the key: the first name that
// core.WithKeyHeader gives to the engine. Default Idempotency-Key.
func KeyHeader(name string) Option {
	return func(s *settings) { s.keyHeader = http.CanonicalHeaderKey(name) }
}

// ExpiryHeader names the header that carries the end of a stored response, as
// core.WithExpiryHeader does for the engine. Default: no such header.
func ExpiryHeader(name string) Option {
	return func(s *settings) { s.expiryHeader, s.expires = http.CanonicalHeaderKey(name), true }
}

// KeyEcho describes that every response has the key header of its request, as
// core.WithKeyEcho does for the engine. Default: no such header.
func KeyEcho() Option {
	return func(s *settings) { s.echoes = true }
}

// ScopeLimit describes the problem scope_limited, a 429, as core.WithScopeLimit lets the engine
// respond with it. Default: no such response.
func ScopeLimit() Option {
	return func(s *settings) { s.limits = true }
}

// ProblemWriter describes the problems in the form of this writer, as core.WithProblemWriter
// does for the engine. Merge calls write for each route and each code that the route's policy
// can cause, and describes the status, the media type, the header Retry-After and the body,
// with a schema that these bodies match. Default: the form of problem.Write.
//
// The request of a call has the route's method, its path template as the path, and no header.
// write must write equal responses to equal problems: a time or a random id in a body changes
// the document at each Merge. Merge calls write on the caller's goroutine.
func ProblemWriter(write problem.Writer) Option {
	return func(s *settings) { s.write, s.writes = write, true }
}

// settingsOf applies the options to the defaults.
func settingsOf(opts []Option) (settings, error) {
	described := settings{replayHeader: "X-Idempotent-Replay", keyHeader: core.KeyHeader}
	var all []error
	for i, opt := range opts {
		if opt == nil {
			all = append(all, fmt.Errorf("openapi: option %d is nil: leave it out", i+1))
			continue
		}
		opt(&described)
	}
	if !httpguts.ValidHeaderFieldName(described.replayHeader) {
		all = append(all, fmt.Errorf("openapi: ReplayHeader is %q: it must be a header name", described.replayHeader))
	}
	if !httpguts.ValidHeaderFieldName(described.keyHeader) {
		all = append(all, fmt.Errorf("openapi: KeyHeader is %q: it must be a header name", described.keyHeader))
	}
	if described.expires && !httpguts.ValidHeaderFieldName(described.expiryHeader) {
		all = append(all, fmt.Errorf("openapi: ExpiryHeader is %q: it must be a header name", described.expiryHeader))
	}
	if described.writes && described.write == nil {
		all = append(all, errors.New("openapi: ProblemWriter is nil: give the function of core.WithProblemWriter, or leave the option out"))
	}
	return described, errors.Join(all...)
}

// naming returns the text with the key header's name in place of Idempotency-Key.
func (s *settings) naming(text string) string {
	return strings.ReplaceAll(text, core.KeyHeader, s.keyHeader)
}
