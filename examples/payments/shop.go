package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
)

// maxBody bounds the body that a handler reads without a guard.
const maxBody = 1 << 20

// shop has the handlers. The handlers are plain net/http, and of this module use only
// package failure.
type shop struct {
	ledger   ledger
	bank     bank // nil without transactions
	members  members
	attempts atomic.Int64
}

func newShop(b backend) *shop {
	return &shop{ledger: b.ledger, bank: b.bank, members: newMembers()}
}

// countAttempt is called by every handler that can be guarded.
func (s *shop) countAttempt() { s.attempts.Add(1) }

// refusal is an error with the status of its response.
type refusal struct {
	status  int
	message string
}

func (r refusal) Error() string { return r.message }

// errCutShort reports that the context ended before the handler learned of a side effect.
var errCutShort = errors.New("cut short")

func badRequest(message string) error { return refusal{http.StatusBadRequest, message} }

func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return badRequest("body cannot be read: " + err.Error())
	}
	err = json.Unmarshal(body, into)
	var refused refusal
	var mistyped *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused): // the errors of fields have their own texts
		return refused
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return badRequest(mistyped.Field + " cannot be a JSON " + mistyped.Value)
	case errors.As(err, &mistyped):
		return badRequest("body must be a JSON object")
	default:
		return badRequest("body is not JSON: " + err.Error())
	}
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil { // the responses are structs of strings and numbers
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// writeError writes the same shape as the engine's own problems, with the message in
// "error". It writes no response if the context has ended: the engine then writes one and
// releases the key.
func writeError(w http.ResponseWriter, err error) {
	var refused refusal
	switch {
	case errors.Is(err, errCutShort):
		return
	case !errors.As(err, &refused):
		slog.Error("a request failed", "error", err)
		refused = refusal{http.StatusInternalServerError, "something broke"}
	}
	writeJSON(w, refused.status, map[string]string{"error": refused.message})
}
