package policy

import (
	"fmt"
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

// isField reports whether field can be a member's name. One with a control character, a comma, a
// quotation mark, an equals sign or spaces around it is a mistake, such as two names in one.
func isField(field string) bool {
	return field != "" && field == strings.TrimSpace(field) && utf8.ValidString(field) && !strings.ContainsFunc(field, func(r rune) bool { return strings.ContainsRune(`,"=`, r) || unicode.IsControl(r) })
}

// isMethod reports whether method is in capital letters. A method is a token, like a
// header's name. A star, which no request has, is meant as all methods and would guard none.
func isMethod(method string) bool {
	return httpguts.ValidHeaderFieldName(method) && method == strings.ToUpper(method) && method != "*"
}
