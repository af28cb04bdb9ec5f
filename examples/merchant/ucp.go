package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// ucp serves the shop in the form of UCP's REST binding, docs/specification/checkout-rest.md.
type ucp struct{}

const ucpVersion = "2026-01-11"

// ucpError is a protocol error. Business outcomes are sessions with messages, and status 200.
type ucpError struct {
	Code    string `json:"code"`
	Content string `json:"content"`
}

// profile finds the platform in UCP-Agent, a dictionary of RFC 8941.
var profile = regexp.MustCompile(`(?:^|[ ,;])profile="(https://[^"]+)"`)

// identify refuses requests without a UCP-Agent ("Specific Header Requirements"). It believes
// every profile: a merchant proves it, for example by the request's signature.
func (ucp) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found := profile.FindStringSubmatch(r.Header.Get("UCP-Agent"))
		if found == nil {
			writeJSON(w, http.StatusBadRequest, ucpError{"invalid_profile_url", `UCP-Agent: profile="https://..." is required`})
			return
		}
		next.ServeHTTP(w, withClient(r, clientBy("ucp", found[1])))
	})
}

// items reads the body of a creation or an update, which replaces the session.
func (ucp) items(r *http.Request) ([]want, error) {
	var body struct {
		Lines []struct {
			Item struct {
				ID string `json:"id"`
			} `json:"item"`
			Quantity int64 `json:"quantity"`
		} `json:"line_items"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	var wanted []want
	for i, l := range body.Lines {
		wanted = append(wanted, want{l.Item.ID, l.Quantity, fmt.Sprintf("$.line_items[%d].item.id", i)})
	}
	return checked("line_items", wanted)
}

// token reads the credential of the first payment instrument.
func (ucp) token(r *http.Request) (string, error) {
	var body struct {
		Payment struct {
			Instruments []struct {
				Credential struct {
					Token string `json:"token"`
				} `json:"credential"`
			} `json:"instruments"`
		} `json:"payment"`
	}
	if err := read(r, &body); err != nil {
		return "", err
	}
	if all := body.Payment.Instruments; len(all) > 0 && all[0].Credential.Token != "" {
		return all[0].Credential.Token, nil
	}
	return "", invalid("$.payment.instruments[0].credential.token", "is missing")
}

// fault writes a protocol error, or the business outcome that an item is not for sale ("Error
// Responses"). A closed session is a conflict.
func (ucp) fault(w http.ResponseWriter, f fault) {
	if f.code == unavailable {
		message := ucpMessage{"error", f.code, f.path, f.message, "recoverable"}
		writeJSON(w, http.StatusOK, map[string]any{"ucp": ucpEnvelope{ucpVersion, "error"}, "messages": []ucpMessage{message}})
		return
	}
	if f.status == http.StatusMethodNotAllowed {
		f.status = http.StatusConflict
	}
	writeJSON(w, f.status, ucpError{f.code, strings.TrimSpace(f.path + " " + f.message)})
}

// The form of a session.
type (
	ucpSession struct {
		UCP       ucpEnvelope  `json:"ucp"`
		ID        string       `json:"id"`
		Status    string       `json:"status"`
		Currency  string       `json:"currency"`
		LineItems []ucpLine    `json:"line_items"`
		Totals    []ucpTotal   `json:"totals"`
		Messages  []ucpMessage `json:"messages,omitempty"`
		Links     []struct{}   `json:"links"`
		Order     *ucpOrder    `json:"order,omitempty"`
	}
	ucpEnvelope struct {
		Version string `json:"version"`
		Status  string `json:"status"`
	}
	ucpLine struct {
		ID       string     `json:"id"`
		Item     ucpItem    `json:"item"`
		Quantity int64      `json:"quantity"`
		Totals   []ucpTotal `json:"totals"`
	}
	ucpItem struct {
		ID    string `json:"id"`
		Title string `json:"title"`
		Price int64  `json:"price"`
	}
	ucpTotal struct {
		Type   string `json:"type"`
		Amount int64  `json:"amount"`
	}
	ucpMessage struct {
		Type     string `json:"type"`
		Code     string `json:"code"`
		Path     string `json:"path,omitempty"`
		Content  string `json:"content"`
		Severity string `json:"severity"`
	}
	ucpOrder struct {
		ID        string `json:"id"`
		Permalink string `json:"permalink_url"`
	}
)

var (
	ucpStatus = map[status]string{ready: "ready_for_complete", completing: "complete_in_progress", completed: "completed", canceled: "canceled"}
	ucpCodes  = map[refusal]string{outOfStock: "out_of_stock", paymentDeclined: "payment_failed"}
)

func (ucp) session(w http.ResponseWriter, status int, s *session) {
	form := ucpSession{UCP: ucpEnvelope{ucpVersion, "success"}, ID: s.ID, Status: ucpStatus[s.Status], Currency: "USD", Links: []struct{}{}}
	for i, l := range s.Lines {
		amount := l.Price * l.Quantity
		form.LineItems = append(form.LineItems, ucpLine{
			ID: fmt.Sprintf("li_%d", i+1), Item: ucpItem{l.Item, l.Title, l.Price}, Quantity: l.Quantity,
			Totals: []ucpTotal{{"subtotal", amount}, {"total", amount}},
		})
	}
	form.Totals = []ucpTotal{{"subtotal", s.total()}, {"total", s.total()}}
	if s.Refused != "" {
		form.Messages = []ucpMessage{{"error", ucpCodes[s.Refused], "", explained[s.Refused], "recoverable"}}
	}
	if s.Order != "" {
		form.Order = &ucpOrder{s.Order, permalink(s.Order)}
	}
	writeJSON(w, status, form)
}
