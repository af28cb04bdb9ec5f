package wire

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/policy"
)

// ReadKey returns the idempotency key of a request, from one of the headers, by their
// canonical names, or from the policy's KeyField, which member finds. ReadKey returns ""
// with a problem, and "" alone for a request without a key where the policy requires none.
// If the policy has a KeyField, ReadKey reads the body and leaves the request unread.
func ReadKey(r *http.Request, headers []string, p *policy.Policy, member *fingerprint.Member) (key string, body []byte, refusal *problem.Problem) {
	key, err := keyFromHeader(r.Header, headers)
	if member != nil && (err == nil || errors.Is(err, errKeyMissing)) {
		if body, refusal = PeekBody(r, p.MaxRequestBytes); refusal != nil {
			return "", nil, refusal
		}
		key, err = keyFromField(p.KeyField, member, body, key)
	}
	switch {
	case errors.Is(err, errKeyMissing) && !p.Required:
		return "", body, nil
	case errors.Is(err, errKeyMissing) && member != nil, errors.Is(err, errOnlyHeader):
		return "", body, fieldMissing(p.KeyField)
	case errors.Is(err, errKeyMissing):
		return "", body, problem.New(problem.KeyMissing, err.Error())
	case err != nil:
		return "", body, problem.New(problem.KeyInvalid, err.Error())
	case !p.KeyFormat.Allows(key):
		return "", body, wrongFormat(p)
	}
	return key, body, nil
}

// wrongFormat returns the problem for a key that the policy's KeyFormat refuses.
func wrongFormat(p *policy.Policy) *problem.Problem {
	place := KeyHeader
	if p.KeyField != "" {
		place = p.KeyField
	}
	wrong := problem.New(problem.KeyInvalid, place+" must be "+p.KeyFormat.Expected())
	wrong.Detail = "Send " + p.KeyFormat.Expected() + "."
	return wrong
}

// fieldMissing returns the problem for a body without the KeyField.
func fieldMissing(name string) *problem.Problem {
	missing := problem.New(problem.KeyMissing, name+" is required in the JSON body")
	missing.Detail = "Send a JSON body with the member " + name + ", new for every operation and the same for every retry of it."
	return missing
}

// errOnlyHeader refuses a key in the header without the KeyField. Why: the request
// would else run unguarded where the policy requires no key.
var errOnlyHeader = errors.New("oncekey: the header has a key and the body has none")

// keyFromHeader reads the key from the headers that may carry it.
func keyFromHeader(h http.Header, names []string) (string, error) {
	var lines []string
	for _, name := range names {
		switch found := h[name]; {
		case len(found) == 0:
		case len(lines) > 0:
			return "", errKeyRepeated
		default:
			lines = found
		}
	}
	switch len(lines) {
	case 0:
		return "", errKeyMissing
	case 1:
		return ParseKey(lines[0])
	default:
		return "", errKeyRepeated
	}
}

// keyFromField reads the key from the named member of a JSON body. header is the key that
// the header has, or "".
func keyFromField(name string, member *fingerprint.Member, body []byte, header string) (string, error) {
	found, err := member.Find(body)
	value := gjson.ParseBytes(found)
	switch absent := err != nil || value.Type == gjson.Null; {
	case errors.Is(err, fingerprint.ErrRepeatedMember):
		return "", fmt.Errorf("%s must be given once", name)
	case absent && header != "":
		return "", errOnlyHeader
	case absent:
		return "", errKeyMissing
	}
	key := value.Str
	if value.Type == gjson.Number {
		key = value.Raw
	}
	switch {
	case len(key) > MaxKeyLength:
		return "", fmt.Errorf("%s must not exceed %d characters", name, MaxKeyLength)
	case key == "" || !spellsKey(key, true): // also an object, an array, true and false
		return "", fmt.Errorf("%s must be a number, or a string of 1 to %d visible ASCII characters", name, MaxKeyLength)
	case header != "" && header != key:
		return "", fmt.Errorf("%s and %s must be the same key", KeyHeader, name)
	}
	return key, nil
}
