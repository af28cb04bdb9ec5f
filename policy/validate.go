package policy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxTTL keeps every store's arithmetic in milliseconds far from its limits.
const maxTTL = 10 * 365 * 24 * time.Hour

// FieldError is one thing that is wrong with a policy. Find it with errors.As.
type FieldError struct {
	// Field is the option's name, Value what it was given.
	Field string
	Value any
	// Want says what would be right.
	Want string
}

// Error returns "policy: LockTTL is 0s: it must be …".
func (e *FieldError) Error() string {
	value := e.Value
	if text, ok := value.(string); ok {
		value = fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("policy: %s is %v: it must be %s", e.Field, value, e.Want)
}

// Validate returns nil, or all that is wrong with the policy: *FieldError
// values joined by errors.Join. New and Parse have called it already.
func (p *Policy) Validate() error {
	var all []error
	check := func(ok bool, field string, value any, want string, arguments ...any) {
		if !ok {
			all = append(all, &FieldError{Field: field, Value: value, Want: fmt.Sprintf(want, arguments...)})
		}
	}
	check(p.TTL >= time.Millisecond && p.TTL <= maxTTL, "TTL", p.TTL, "from 1ms to %v (ten years)", maxTTL)
	check(p.LockTTL >= time.Millisecond, "LockTTL", p.LockTTL, "at least 1ms")
	check(p.LockTTL <= p.TTL, "LockTTL", p.LockTTL, "at most TTL, which is %v", p.TTL)
	check(p.Wait >= 0, "Wait", p.Wait, "zero or more")
	check(p.MaxRun > 0, "MaxRun", p.MaxRun, "more than zero")
	check(p.StoreTimeout > 0, "StoreTimeout", p.StoreTimeout, "more than zero")
	check(p.MaxRequestBytes > 0, "MaxRequestBytes", p.MaxRequestBytes, "more than zero")
	check(p.MaxResponseBytes > 0, "MaxResponseBytes", p.MaxResponseBytes, "more than zero")
	check(p.OnStoreError <= FailOpen, "OnStoreError", int(p.OnStoreError), "FailClosed or FailOpen")
	check(!p.OnAbandoned.recovers || p.OnAbandoned.recover != nil, "OnAbandoned", p.OnAbandoned, "given a function, or be Reexecute or Refuse")
	check(!p.Transactional || p.OnStoreError != FailOpen, "OnStoreError", p.OnStoreError, "FailClosed when Transactional is true: there is no transaction without the store")
	check(len(p.Methods) > 0, "Methods", "", "at least one method")
	for _, method := range p.Methods {
		check(isMethod(method), "Methods", method, "a method in capital letters, such as POST")
	}
	for _, field := range p.ExcludeFields {
		check(isField(field), "ExcludeFields", field, "a member's name or path, such as meta.nonce, without spaces around it or control characters")
	}
	for _, name := range p.KeepHeaders {
		check(IsToken(name), "KeepHeaders", name, "a header name, such as Set-Cookie")
		check(!IsHopByHop(name), "KeepHeaders", name, "no hop-by-hop header: it belongs to one connection, not to an answer")
	}
	return errors.Join(all...)
}

// hopByHop are the headers of one connection: RFC 9110, section 7.6.1, and
// RFC 2616, section 13.5.1. Trailer is not among them, because net/http writes
// an answer's trailers anew from it.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Transfer-Encoding", "Upgrade",
}

// IsHopByHop reports whether a header belongs to one connection and is
// therefore never stored.
func IsHopByHop(name string) bool {
	return slices.Contains(hopByHop, http.CanonicalHeaderKey(name))
}

// isField reports whether a field may be meant: a name with a line feed or a space at
// its end is a slip of quotation marks.
func isField(field string) bool {
	return field != "" && field == strings.TrimSpace(field) && utf8.ValidString(field) && !strings.ContainsFunc(field, unicode.IsControl)
}

func isMethod(method string) bool {
	return IsToken(method) && method == strings.ToUpper(method)
}

// IsToken reports whether name is one that HTTP allows for a header or a method:
// RFC 9110, section 5.6.2 (token).
func IsToken(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0:
			return false
		}
	}
	return name != ""
}
