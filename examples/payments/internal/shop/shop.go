// Package shop has everything of the payments program that only demonstrates: test cards, ledgers, members, notes, accounts
// and users. A program that copies payments has its own in their place.
package shop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
)

// maxBody bounds the body that a handler reads without a guard.
const maxBody = 1 << 20

// Shop has the handlers beside those of payments. The handlers are plain net/http, and of this module use only package failure.
type Shop struct {
	Ledger Ledger
	Bank   Bank // nil without transactions

	members  members
	attempts atomic.Int64
}

// New returns a shop that keeps its side effects in the ledger. A shop without transactions has no bank.
func New(ledger Ledger, bank Bank) *Shop {
	return &Shop{Ledger: ledger, Bank: bank, members: newMembers()}
}

// CountAttempt is called by every handler that can be guarded.
func (s *Shop) CountAttempt() { s.attempts.Add(1) }

// StatusError is an error with the status of its response.
type StatusError struct {
	Status  int
	Message string
}

func (r StatusError) Error() string { return r.Message }

// errCutShort reports that the context ended before the handler learned of a side effect.
var errCutShort = errors.New("cut short")

// BadRequest is a refusal with status 400.
func BadRequest(message string) error { return StatusError{http.StatusBadRequest, message} }

// ReadJSON reads the body of a request. Its error is a [StatusError].
func ReadJSON(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return BadRequest("body cannot be read: " + err.Error())
	}
	err = json.Unmarshal(body, into)
	var refused StatusError
	var mistyped *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused): // the errors of fields have their own texts
		return refused
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return BadRequest(mistyped.Field + " cannot be a JSON " + mistyped.Value)
	case errors.As(err, &mistyped):
		return BadRequest("body must be a JSON object")
	default:
		return BadRequest("body is not JSON: " + err.Error())
	}
}

// WriteJSON writes a response.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil { // the responses are structs of strings and numbers
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// WriteError writes the same shape as the engine's own problems, with the message in
// "error". It writes no response if the context has ended: the engine then writes one and
// releases the key.
func WriteError(w http.ResponseWriter, err error) {
	var refused StatusError
	switch {
	case errors.Is(err, errCutShort):
		return
	case !errors.As(err, &refused):
		slog.Error("a request failed", "error", err)
		refused = StatusError{http.StatusInternalServerError, "something broke"}
	}
	WriteJSON(w, refused.Status, map[string]string{"error": refused.Message})
}

// pay is a payment of an amount, as a command.
const pay = `curl -i %s/payments -H 'Authorization: Bearer alice' -H 'Idempotency-Key: k1' \
    --json '{"order_id":"o-1","amount":%d,"currency":"EUR","card":"tok_ok"}'
`

// Demonstration has the commands that show the guard at work, for a service at the address. README's transcript has the same.
func Demonstration(address string) string {
	return fmt.Sprintf(`
Pay, and send the same again: the retry gets the first response.

%s
Change the amount under the same key: 422.

%s`, fmt.Sprintf(pay, address, 4200), fmt.Sprintf(pay, address, 9900))
}
