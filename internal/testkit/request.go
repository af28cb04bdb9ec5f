package testkit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
)

// Post is a client's request with a key, and a body of JSON.
func Post(ctx context.Context, path, key, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	return r
}

// Serve returns a handler's response, without a network.
func Serve(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}
