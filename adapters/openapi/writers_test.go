package openapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/problem"
)

// respond writes a problem in JSON.
func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(err)
	}
}

// flat writes a flat object with a type, as the Agentic Commerce Protocol does.
func flat(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	code := map[string]string{
		problem.KeyMissing: "idempotency_key_required", problem.KeyReused: "idempotency_conflict", problem.InProgress: "idempotency_in_flight",
	}[p.Code]
	if code == "" {
		code = p.Code
	}
	kind := "invalid_request"
	if p.Status >= 500 {
		kind = "service_unavailable"
	}
	respond(w, p.Status, struct {
		Type    string `json:"type"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}{kind, code, p.Detail})
}

// conflicting writes 409 for a reused key too, as the Universal Commerce Protocol does.
func conflicting(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	if p.Code == problem.KeyReused {
		p.Status = http.StatusConflict
	}
	respond(w, p.Status, map[string]any{"code": p.Code, "content": p.Detail})
}

// plain writes text, without a media type, and a date in Retry-After.
func plain(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", time.Unix(0, 0).UTC().Add(p.RetryAfter).Format(http.TimeFormat))
	}
	w.WriteHeader(p.Status)
	fmt.Fprintln(w, p.Error)
}

// nested writes the error within an object, and 429 where a retry helps. A time is a
// member of such errors alone.
func nested(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	body := map[string]any{"code": p.Code, "message": p.Detail, "causes": []any{}, "status": p.Status}
	if p.RetryAfter > 0 {
		p.Status = http.StatusTooManyRequests
		body["after"] = p.RetryAfter.Seconds() / 4
		body["causes"] = []any{p.Title}
	}
	respond(w, p.Status, map[string]any{"error": body})
}

// handled tells senders of webhooks by a 200 that an event was handled before.
func handled(w http.ResponseWriter, r *http.Request, p problem.Problem) {
	switch p.Code {
	case problem.KeyExpired, problem.NotReplayable, problem.HandlerFailed:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "handled before:", p.Code)
	case problem.PrincipalMissing:
		w.WriteHeader(http.StatusUnauthorized)
	default:
		problem.Write(w, r, p)
	}
}

// byPath writes one of two forms.
func byPath(w http.ResponseWriter, r *http.Request, p problem.Problem) {
	if strings.HasPrefix(r.URL.Path, "/acp/") {
		flat(w, r, p)
		return
	}
	conflicting(w, r, p)
}
