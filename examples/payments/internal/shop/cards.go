package shop

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The test cards. Every payment provider's sandbox has similar ones.
const (
	cardOK               = "tok_ok"                 // 201
	cardDeclined         = "tok_declined"           // 402, permanent: a retry gets the same response
	cardRateLimited      = "tok_rate_limited"       // 429, temporary: a retry runs again
	cardGatewayDown      = "tok_gateway_down"       // 503, no money moved: a retry runs again
	cardPanic            = "tok_panic"              // 500, no money moved: a retry runs again
	cardCrashAfterCharge = "tok_crash_after_charge" // 500 after the charge: a retry gets the same response, and charges no second time
	cardStream           = "tok_stream"             // 201 in three pieces: a retry learns that the response was not kept
	cardSlow             = "tok_slow"               // tok_slow:10s charges after ten seconds
	cardHuge             = "tok_huge"               // tok_huge:2000000 responds with that many bytes
)

// SlowestCard is the longest time of a charge.
const SlowestCard = 10 * time.Minute

const hugest = 64 << 20

// Card is the card of a payment, which decides its end.
type Card struct {
	name  string
	delay time.Duration // of tok_slow
	size  int           // of tok_huge
}

// UnmarshalText reads a token; encoding/json calls it.
func (c *Card) UnmarshalText(token []byte) error {
	plain := []string{
		cardOK, cardDeclined, cardRateLimited, cardGatewayDown, cardPanic, cardCrashAfterCharge, cardStream,
	}
	name, argument, _ := strings.Cut(string(token), ":")
	*c = Card{name: name}
	var err error
	switch {
	case slices.Contains(plain, string(token)):
	case name == cardSlow:
		c.delay, err = time.ParseDuration(argument)
		if err != nil || c.delay <= 0 || c.delay > SlowestCard {
			return BadRequest(fmt.Sprintf("card %q: give a duration of at most %v, as in tok_slow:2s", token, SlowestCard))
		}
	case name == cardHuge:
		c.size, err = strconv.Atoi(argument)
		if err != nil || c.size <= 0 || c.size > hugest {
			return BadRequest(fmt.Sprintf("card %q: give 1 to %d bytes, as in tok_huge:2000000", token, hugest))
		}
	default:
		return BadRequest(fmt.Sprintf("card %q is unknown: try tok_ok", token))
	}
	return nil
}

// Authorize is the provider's part before any money moves. It returns nil if the card
// may be charged.
func (c Card) Authorize(ctx context.Context) error {
	switch c.name {
	case cardDeclined:
		return StatusError{http.StatusPaymentRequired, "card was declined"}
	case cardRateLimited:
		return StatusError{http.StatusTooManyRequests, "too many payments: try again later"}
	case cardGatewayDown:
		return StatusError{http.StatusServiceUnavailable, "payment provider is down: try again later"}
	case cardPanic:
		panic("tok_panic: a bug before the charge")
	case cardSlow:
		select {
		case <-time.After(c.delay):
		case <-ctx.Done():
			return errCutShort
		}
	}
	return nil
}

// CrashAfterCharge panics for the card of that name.
func (c Card) CrashAfterCharge() {
	if c.name == cardCrashAfterCharge {
		panic("tok_crash_after_charge: a bug after the charge")
	}
}

// Respond writes the 201.
func (c Card) Respond(w http.ResponseWriter, receipt any) {
	switch c.name {
	case cardStream:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusCreated)
		for _, step := range []string{"authorized", "captured", "settled"} {
			fmt.Fprintln(w, step)
			_ = http.NewResponseController(w).Flush() // a client that has disconnected gets no response
		}
	case cardHuge:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.WriteHeader(http.StatusCreated)
		w.Write(bytes.Repeat([]byte{'x'}, c.size))
	default:
		WriteJSON(w, http.StatusCreated, receipt)
	}
}
