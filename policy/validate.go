package policy

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

// maxTTL keeps every store's arithmetic in milliseconds far from its limits.
const maxTTL = 10 * 365 * 24 * time.Hour

// FieldError reports one invalid field of a policy. Find it with errors.As.
type FieldError struct {
	// Field is the option's name, Value the given value.
	Field string
	Value any
	// Want is the expected form.
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

// Validate returns nil, or a *FieldError for every invalid field, joined by
// errors.Join. New and Parse call Validate.
func (p *Policy) Validate() error {
	var all []error
	check := func(ok bool, field string, value any, want string, arguments ...any) {
		if !ok {
			all = append(all, &FieldError{Field: field, Value: value, Want: fmt.Sprintf(want, arguments...)})
		}
	}
	check(p.TTL >= time.Millisecond && p.TTL <= maxTTL, "TTL", p.TTL, "from 1ms to %v (ten years)", maxTTL)
	check(p.Remember >= 0, "Remember", p.Remember, "zero or more")
	check(p.Remember <= maxTTL-max(p.TTL, 0) || p.TTL > maxTTL, "Remember", p.Remember, "at most %v (ten years) with TTL, which is %v", maxTTL, p.TTL)
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
	p.validateFields(check)
	p.validateStatuses(check)
	for _, name := range p.KeepHeaders {
		check(httpguts.ValidHeaderFieldName(name), "KeepHeaders", name, "a header name, such as Set-Cookie")
		check(!belongsToConnection(http.CanonicalHeaderKey(name)), "KeepHeaders", name, "an end-to-end header: a hop-by-hop header belongs to one connection, not to a response")
	}
	return errors.Join(all...)
}

// validateFields checks the settings of the key and of the fingerprint.
func (p *Policy) validateFields(check func(ok bool, field string, value any, want string, arguments ...any)) {
	check(p.KeyField == "" || isField(p.KeyField), "KeyField", p.KeyField, "a member's name or path, such as request_id, without spaces around it or control characters")
	if err := p.KeyFormat.err; err != nil {
		reason := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		check(false, "KeyFormat", p.KeyFormat.name, "UUIDKey, or KeyPattern with a regular expression: %s", reason)
	}
	check(p.KeyAge == 0 || p.KeyAge >= time.Minute, "KeyAge", p.KeyAge, "zero, or at least 1m0s")
	longest := p.TTL + p.Remember - KeyClockTolerance
	check(p.KeyAge < time.Minute || p.KeyAge <= longest, "KeyAge", p.KeyAge,
		"at most %v, which is TTL with Remember less %v for clocks that are ahead: a retry after its record, and before KeyAge, would run again", longest, KeyClockTolerance)
	for _, field := range p.ExcludeFields {
		check(isField(field), "ExcludeFields", field, "a member's name or path, such as meta.nonce, without spaces around it or control characters")
	}
	for _, field := range p.RedactFields {
		check(isField(field), "RedactFields", field, "a member's name or path, such as client_secret, without spaces around it or control characters")
	}
	for _, field := range p.IncludeFields {
		check(isField(field), "IncludeFields", field, "a member's name or path, such as amount, without spaces around it or control characters")
	}
	check(len(p.IncludeFields) == 0 || len(p.ExcludeFields) == 0, "IncludeFields", strings.Join(p.IncludeFields, ","), "left out beside ExcludeFields, because all other fields are excluded already")
	check(!p.ExactBytes || len(p.IncludeFields)+len(p.ExcludeFields) == 0, "ExactBytes", p.ExactBytes, "left out beside ExcludeFields and IncludeFields: with it every byte counts")
	for _, name := range p.IncludeHeaders {
		check(httpguts.ValidHeaderFieldName(name), "IncludeHeaders", name, "a header name, such as X-Api-Version")
		check(!belongsToConnection(http.CanonicalHeaderKey(name)), "IncludeHeaders", name, "an end-to-end header: a hop-by-hop header belongs to one connection, not to a request")
		check(!strings.EqualFold(name, "Host"), "IncludeHeaders", name, "another header: core.ScopeByHost separates keys by Host")
	}
}

// isField reports whether field can be a member's name. A name with a control
// character or with spaces around it is a quoting mistake.
func isField(field string) bool {
	return field != "" && field == strings.TrimSpace(field) && utf8.ValidString(field) && !strings.ContainsFunc(field, unicode.IsControl)
}

// isMethod reports whether method is in capital letters. A method is a token, like a
// header's name.
func isMethod(method string) bool {
	return httpguts.ValidHeaderFieldName(method) && method == strings.ToUpper(method)
}
