package openapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/oncekey/oncekey/core"
)

// Option changes the description.
type Option func(*settings)

type settings struct {
	replayHeader, keyHeader, expiryHeader string
	expires                               bool // ExpiryHeader was given
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
	return described, errors.Join(all...)
}

// naming returns the text with the key header's name in place of Idempotency-Key.
func (s *settings) naming(text string) string {
	return strings.ReplaceAll(text, core.KeyHeader, s.keyHeader)
}
