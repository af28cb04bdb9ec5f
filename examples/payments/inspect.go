package main

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
)

// inspectorPath is the place of the operators' page.
const inspectorPath = "/ops/idempotency"

// withInspector serves the inspector's page beside the shop. The page stands outside of the
// router, so that the router's middleware for clients does not apply to operators.
func withInspector(shop http.Handler, engine *core.Engine, events *inspector.Events, token string) (http.Handler, error) {
	page, err := inspector.New(engine, operatorBy(token), inspector.Remembered(events), inspector.Derived("charge", "refund"))
	if err != nil {
		return nil, err
	}
	operators := http.StripPrefix(inspectorPath, page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == inspectorPath || strings.HasPrefix(r.URL.Path, inspectorPath+"/") {
			operators.ServeHTTP(w, r)
			return
		}
		shop.ServeHTTP(w, r)
	}), nil
}

// operatorBy admits every person with the token, under the name that the browser asks for. A
// real service asks its single sign-on, and gives the rights by role.
func operatorBy(token string) inspector.Authorize {
	return func(r *http.Request) (inspector.Operator, error) {
		name, given, _ := r.BasicAuth()
		if name == "" || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			return inspector.Operator{}, core.Challenge(`Basic realm="inspector"`, errors.New("sign in with any name and the token"))
		}
		return inspector.Operator{Name: name, May: inspector.Read | inspector.Reveal | inspector.Settle}, nil
	}
}
