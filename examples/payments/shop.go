package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
)

// maxBody bounds what a handler reads where no guard has read it before.
const maxBody = 1 << 20

// shop has the handlers. They are plain net/http, and know of idempotency what
// they tell package failure.
type shop struct {
	ledger   ledger
	bank     *bank // nil without a database
	members  members
	attempts atomic.Int64
}

func newShop(b backend) *shop {
	return &shop{ledger: b.ledger, bank: b.bank, members: newMembers()}
}

// countAttempt is called by every handler that can be guarded.
func (s *shop) countAttempt() { s.attempts.Add(1) }

// refusal is an error with a status to answer it with.
type refusal struct {
	status  int
	message string
}

func (r refusal) Error() string { return r.message }

// errCutShort says that the context ended before the handler knew of anything
// that happened.
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
	case errors.As(err, &refused): // a field's own words
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
	if err != nil { // the answers are structs of strings and numbers
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// writeError answers in the shape that the engine's own problems have too: a
// client finds the message in "error". It writes nothing where the context has
// ended: the engine knows why, answers, and frees the key.
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
