package core

import (
	"errors"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// KeyHeader is the request header that carries the idempotency key
// (draft-ietf-httpapi-idempotency-key-header). WithKeyHeader changes it.
const KeyHeader = "Idempotency-Key"

// maxKeyLength bounds a key, counted without the quotes of its string form.
const maxKeyLength = 255

// The reasons for refusing a key, sent as the error member of the 400.
var (
	errKeyMissing  = errors.New("Idempotency-Key header is required")
	errKeyRepeated = errors.New("Idempotency-Key must be given once")
	errKeyTooLong  = errors.New("Idempotency-Key must not exceed 255 characters")
	errKeyInvalid  = errors.New("Idempotency-Key must be 1 to 255 visible ASCII characters, raw or as one string in quotes")
)

// ParseKey parses the value of an Idempotency-Key header: a raw key, or a key as an
// RFC 8941 string in quotes. Both forms give the same key. A key is 1 to 255 visible
// ASCII characters. A raw key cannot contain a quote, a comma or a semicolon, and
// cannot look like another structured type (a byte sequence, a boolean, an inner
// list). Such a value is probably not meant as a key, or a proxy has joined two header
// lines.
func ParseKey(value string) (string, error) {
	value = trimBlanks(value)
	key, ok, quoted := value, true, strings.HasPrefix(value, `"`)
	if quoted {
		key, ok = unquote(value)
	} else if otherStructuredType(value) {
		ok = false
	}
	switch {
	case len(key) > maxKeyLength:
		return "", errKeyTooLong
	case !ok || key == "" || !spellsKey(key, quoted):
		return "", errKeyInvalid
	}
	return key, nil
}

// trimBlanks is strings.Trim of spaces and tabs, without the set of characters that Trim
// makes for two: 2 % of a replay.
func trimBlanks(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// spellsKey reports whether a quoted or raw key has only allowed characters.
func spellsKey(key string, quoted bool) bool {
	for i := range len(key) {
		c := key[i]
		if c <= ' ' || c > '~' || !quoted && (c == '"' || c == ',' || c == ';') {
			return false
		}
	}
	return true
}

// unquote parses a value that is one RFC 8941 string (section 3.3.3).
func unquote(value string) (string, bool) {
	if !strings.Contains(value, `\`) {
		inner, closed := strings.CutSuffix(value[1:], `"`)
		return inner, closed && !strings.Contains(inner, `"`)
	}
	var key strings.Builder
	for i := 1; i < len(value); i++ {
		switch c := value[i]; c {
		case '"':
			return key.String(), i == len(value)-1
		case '\\':
			i++
			if i == len(value) || value[i] != '"' && value[i] != '\\' {
				return key.String(), false
			}
			key.WriteByte(value[i])
		default:
			key.WriteByte(c)
		}
	}
	return key.String(), false
}

func otherStructuredType(value string) bool {
	return value == "?0" || value == "?1" ||
		len(value) > 1 && strings.HasPrefix(value, ":") && strings.HasSuffix(value, ":") ||
		strings.HasPrefix(value, "(") && strings.HasSuffix(value, ")")
}

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
// scope returned. For errors and empty names of scope the engine responds with 401.
func ScopeByHost(scope Scope) Scope {
	if scope == nil {
		return nil // New refuses a nil Scope
	}
	return func(r *http.Request) (string, error) {
		principal, err := scope(r)
		if err != nil || principal == "" {
			return "", err
		}
		host := canonicalHost(r.Host)
		if strings.Contains(host, " ") { // net/http's server refuses such a Host
			return "", errors.New("oncekey: the request's Host holds a space")
		}
		return host + " " + principal, nil
	}
}

// canonicalHost returns the same text for equal hosts.
func canonicalHost(host string) string {
	port := ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i:]
	}
	switch port {
	case ":", ":80", ":443":
		port = ""
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")) + port
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
