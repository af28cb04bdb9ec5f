package core

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/policy"
)

var defaultKeyHeaders = []string{KeyHeader}

// keyFromHeader reads the idempotency key from the headers that may carry it.
func (e *Engine) keyFromHeader(h http.Header) (string, error) {
	var lines []string
	for _, name := range e.keyHeaders {
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

// keyOf returns the key of a request. It returns "" with a problem, and "" alone for a
// request without a key where the policy requires none.
func (e *Engine) keyOf(r *http.Request, a *admission) (string, *problem.Problem) {
	key, err := e.keyFromHeader(r.Header)
	inField := a.route.keyField != nil
	if inField && (err == nil || errors.Is(err, errKeyMissing)) {
		var refusal *problem.Problem
		if a.input.Body, refusal = wire.PeekBody(r, a.route.policy.MaxRequestBytes); refusal != nil {
			return "", refusal
		}
		key, err = a.route.keyFromField(a.input.Body, key)
	}
	switch {
	case errors.Is(err, errKeyMissing) && !a.route.policy.Required:
		return "", nil
	case errors.Is(err, errKeyMissing) && inField, errors.Is(err, errOnlyHeader):
		return "", fieldMissing(a.route.policy.KeyField)
	case errors.Is(err, errKeyMissing):
		return "", problem.New(problem.KeyMissing, err.Error())
	case err != nil:
		return "", problem.New(problem.KeyInvalid, err.Error())
	case !a.route.policy.KeyFormat.Allows(key):
		return "", wrongFormat(&a.route.policy)
	}
	return key, nil
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

// errOnlyHeader refuses a key in the header without the KeyField. Why: the request
// would else run unguarded where the policy requires no key.
var errOnlyHeader = errors.New("oncekey: the header has a key and the body has none")

// fieldMissing returns the problem for a body without the KeyField.
func fieldMissing(name string) *problem.Problem {
	missing := problem.New(problem.KeyMissing, name+" is required in the JSON body")
	missing.Detail = "Send a JSON body with the member " + name + ", new for every operation and the same for every retry of it."
	return missing
}

// keyFromField reads the key from the policy's KeyField. header is the key that the
// header has, or "".
func (r *Route) keyFromField(body []byte, header string) (string, error) {
	name := r.policy.KeyField
	found, err := r.keyField.Find(body)
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
	case len(key) > maxKeyLength:
		return "", fmt.Errorf("%s must not exceed %d characters", name, maxKeyLength)
	case key == "" || !spellsKey(key, true): // also an object, an array, true and false
		return "", fmt.Errorf("%s must be a number, or a string of 1 to %d visible ASCII characters", name, maxKeyLength)
	case header != "" && header != key:
		return "", fmt.Errorf("%s and %s must be the same key", KeyHeader, name)
	}
	return key, nil
}

// naming returns the problem with the engine's key header in place of Idempotency-Key.
func (e *Engine) naming(p problem.Problem) problem.Problem {
	if name := e.keyHeaders[0]; name != KeyHeader {
		p.Title = strings.ReplaceAll(p.Title, KeyHeader, name)
		p.Detail = strings.ReplaceAll(p.Detail, KeyHeader, name)
		p.Error = strings.ReplaceAll(p.Error, KeyHeader, name)
	}
	return p
}
