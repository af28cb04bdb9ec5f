package core

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/oncekey/oncekey/core/internal/cause"
	"github.com/oncekey/oncekey/core/internal/wire"
)

// KeyHeader is the request header that carries the idempotency key
// (draft-ietf-httpapi-idempotency-key-header). WithKeyHeader changes it.
const KeyHeader = wire.KeyHeader

// ParseKey parses the value of an Idempotency-Key header: a raw key, or a key as an
// RFC 8941 string in quotes. Both forms give the same key. A key is 1 to 255 visible
// ASCII characters. A raw key cannot contain a quote, a comma or a semicolon, and
// cannot look like another structured type (a byte sequence, a boolean, an inner
// list). Such a value is probably not meant as a key, or a proxy has joined two header
// lines.
func ParseKey(value string) (string, error) { return wire.ParseKey(value) }

// KeyTime returns the time at which a key was made, by its client's clock: a UUID of
// version 7 (RFC 9562, section 5.7) or a ULID has it in milliseconds. It reports false for
// any other key. See policy.KeyAge.
func KeyTime(key string) (made time.Time, has bool) { return wire.TimeOfKey(key) }

// Scope returns the name of the principal that owns the request's key. The same key
// from two principals is two keys. For an error or an empty name the engine responds
// with 401, and Challenge adds a WWW-Authenticate value to that response. A Scope must
// not read the request's body, which the engine reads afterwards, or before for a
// policy.KeyField. It must be safe for concurrent use.
//
// Host does not separate keys by itself: see ScopeByHost.
type Scope func(*http.Request) (string, error)

// ScopeBy makes a Scope of a function that returns the principal, such as the
// authenticated user of the request's context.
func ScopeBy(principal func(*http.Request) (string, error)) Scope { return principal }

// scopeFailure is the error of an event about a Scope's error.
func scopeFailure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("oncekey: the Scope failed: %w", err)
}

// SharedScope puts the keys of all clients in one scope. Use SharedScope for services
// with a single client: every client that knows a key can read the stored response.
func SharedScope(*http.Request) (string, error) { return "\x00shared", nil }

// ScopeByHost separates the tenants of a service by the request's Host, and the
// principals of each tenant by scope. Use ScopeByHost where a principal's name means
// different accounts on different host names.
//
// Without ScopeByHost, Host is not part of a record's name: a client that retries
// through another host name of the service gets the stored response, and does not pay
// twice. Case, a trailing dot and the ports 80 and 443 do not count (RFC 9110, section
// 4.2.3). Only r.Host counts, never a forwarded header: a proxy in front must forward
// the client's Host.
//
// The scope in events and in policy.Abandoned is the host, a space, and the name that
// scope returned. For errors and empty names of scope, and for requests without a Host,
// as calls over Connect and MCP are, the engine responds with 401.
func ScopeByHost(scope Scope) Scope {
	if scope == nil {
		return nil // New refuses a nil Scope
	}
	return func(r *http.Request) (string, error) {
		principal, err := scope(r)
		if err != nil || principal == "" {
			return "", err
		}
		host := wire.CanonicalHost(r.Host)
		if host == "" || strings.Contains(host, " ") { // net/http's server refuses a space
			return "", cause.New("the request's Host names no tenant")
		}
		return host + " " + principal, nil
	}
}

// Challenge returns an error for a Scope. The 401 then has value as its
// WWW-Authenticate header (RFC 9110, section 11.6.1), such as
// `Bearer realm="payments"`. The error wraps err, which may be nil. An empty value, or
// a value that HTTP does not allow in a header, is not sent.
func Challenge(value string, err error) error {
	if err == nil {
		err = errors.New("oncekey: the request names no principal")
	}
	return &challengeError{value, err}
}

type challengeError struct {
	value string
	error
}

func (e *challengeError) Unwrap() error { return e.error }

// ChallengeOf returns the WWW-Authenticate value that Challenge gave to an error, or "".
func ChallengeOf(err error) string {
	challenge, ok := errors.AsType[*challengeError](err)
	if !ok || !httpguts.ValidHeaderFieldValue(challenge.value) {
		return ""
	}
	return challenge.value
}
