package core

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/oncekey/oncekey/core/problem"
)

var defaultKeyHeaders = []string{KeyHeader}

// WithKeyHeader names the request headers that carry the idempotency key. Default
// Idempotency-Key. Problem texts use the first name. A request gives its key in one of
// the headers: the engine refuses a request with two of them, also where both have the
// same value. Pass the first name to openapi.KeyHeader.
//
//	core.WithKeyHeader("Idempotency-Key", "X-Request-Id") // the second for old clients
func WithKeyHeader(names ...string) Option {
	return func(e *Engine) error {
		if len(names) == 0 {
			return errors.New("oncekey: WithKeyHeader is given no names: give at least one header name, such as Idempotency-Key")
		}
		headers := make([]string, 0, len(names))
		for _, name := range names {
			canonical := http.CanonicalHeaderKey(name)
			switch {
			case !httpguts.ValidHeaderFieldName(name), canonical == "Host": // net/http removes Host from the header
				return fmt.Errorf("oncekey: WithKeyHeader is given %q: give a header name, such as Idempotency-Key", name)
			case slices.Contains(headers, canonical):
				return fmt.Errorf("oncekey: WithKeyHeader is given %q twice: once is enough", name)
			}
			headers = append(headers, canonical)
		}
		e.keyHeaders = headers
		return nil
	}
}

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

// naming returns the problem with the engine's key header in place of Idempotency-Key.
func (e *Engine) naming(p problem.Problem) problem.Problem {
	if name := e.keyHeaders[0]; name != KeyHeader {
		p.Title = strings.ReplaceAll(p.Title, KeyHeader, name)
		p.Detail = strings.ReplaceAll(p.Detail, KeyHeader, name)
		p.Error = strings.ReplaceAll(p.Error, KeyHeader, name)
	}
	return p
}
