package core

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/oncekey/oncekey/core/internal/frame"
)

// KeyHeader is the request header that carries the idempotency key
// (draft-ietf-httpapi-idempotency-key-header).
const KeyHeader = "Idempotency-Key"

// maxKeyLength bounds a key, counted without the quotes of its string form.
const maxKeyLength = 255

// The reasons why a key is refused; they are the error member of the 400.
var (
	errKeyMissing  = errors.New("Idempotency-Key header is required")
	errKeyRepeated = errors.New("Idempotency-Key must be given once")
	errKeyTooLong  = errors.New("Idempotency-Key must not exceed 255 characters")
	errKeyInvalid  = errors.New("Idempotency-Key must be 1 to 255 visible ASCII characters, raw or as one string in quotes")
)

// keyFromHeader reads the idempotency key of a request.
func keyFromHeader(h http.Header) (string, error) {
	switch lines := h[KeyHeader]; len(lines) {
	case 0:
		return "", errKeyMissing
	case 1:
		return ParseKey(lines[0])
	default:
		return "", errKeyRepeated
	}
}

// ParseKey reads the value of an Idempotency-Key header: the key itself, or the
// key as an RFC 8941 string in quotes. Both forms of one key are the same key.
// A key is 1 to 255 visible ASCII characters. A raw key cannot hold a quote, a
// comma or a semicolon, and cannot look like another structured type (a byte
// sequence, a boolean, an inner list): whoever sends such a value means
// something else, or a proxy has joined two header lines.
func ParseKey(value string) (string, error) {
	value = strings.Trim(value, " \t")
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

// spellsKey reports whether all characters may be in a key, given in quotes or raw.
func spellsKey(key string, quoted bool) bool {
	for i := range len(key) {
		c := key[i]
		if c <= ' ' || c > '~' || !quoted && (c == '"' || c == ',' || c == ';') {
			return false
		}
	}
	return true
}

// unquote reads an RFC 8941 string (section 3.3.3) that is the whole value.
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

// StorageKey returns the name under which this engine stores a record: that of
// storage.Key, with the service's name (see WithService) as a part of it.
func (e *Engine) StorageKey(scope, method, path, key string) string {
	digest := e.digest(&Request{Scope: scope, Method: method, Path: path, Key: key})
	return hex.EncodeToString(digest[:])
}

// digest is the storage key of a request's record, before it is spelled. Without a
// service the name is that of the versions before services.
func (e *Engine) digest(r *Request) [sha256.Size]byte {
	if e.service == "" {
		return frame.Sum(r.Scope, r.Method, r.Path, r.Key)
	}
	return frame.Sum(e.service, r.Scope, r.Method, r.Path, r.Key)
}

// requestPath returns the path that names the request's resource. It is the path
// that the client asked for where middleware has only stripped a prefix of it, so
// that two mounts of one handler stay two resources. Any other URL.Path counts by
// itself: a handler has made a sub-request, or middleware has rewritten the path.
func requestPath(r *http.Request) string {
	path := canonicalPath(r.URL)
	if asked, _, _ := strings.Cut(r.RequestURI, "?"); asked != path {
		if u, err := url.ParseRequestURI(asked); err == nil { // in the absolute form as well
			if whole := canonicalPath(u); strings.HasSuffix(whole, path) {
				path = whole
			}
		}
	}
	if path == "" { // RFC 9110, section 4.2.3
		return "/"
	}
	return path
}

// canonicalPath returns the path by which a resource is known: equal spellings
// of a path are one, but an escaped slash stays different from a slash. It splits
// RawPath itself, because URL.EscapedPath drops a RawPath that has characters
// which it would have escaped.
func canonicalPath(u *url.URL) string {
	if u.RawPath == "" {
		return strings.ReplaceAll(u.Path, "%", "%25")
	}
	if plain, err := url.PathUnescape(u.RawPath); err != nil || plain != u.Path {
		return strings.ReplaceAll(u.Path, "%", "%25") // only Path was rewritten
	}
	segments := strings.Split(u.RawPath, "/")
	for i, segment := range segments {
		plain, _ := url.PathUnescape(segment) // the whole of them could be
		segments[i] = strings.NewReplacer("%", "%25", "/", "%2F").Replace(plain)
	}
	return strings.Join(segments, "/")
}
