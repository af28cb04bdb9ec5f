package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/oncekey/oncekey/core"
)

// acp serves the shop in the form of ACP, rfcs/rfc.agentic_checkout.md. Sections in this file
// are those of the release 2026-04-17.
type acp struct{}

const acpVersion = "2026-04-17"

type acpError struct {
	Type      string   `json:"type"`
	Code      string   `json:"code"`
	Message   string   `json:"message"`
	Param     string   `json:"param,omitempty"`
	Supported []string `json:"supported_versions,omitempty"`
}

// identify refuses requests without a client or a version (2.1, 3.1). It believes every token.
func (acp) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get("Request-Id"); id != "" {
			w.Header().Set("Request-Id", id)
		}
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		refuse := func(status int, e acpError) {
			if key := r.Header.Get(core.KeyHeader); key != "" {
				w.Header().Set(core.KeyHeader, key) // the guard does this for requests that it sees
			}
			e.Type = "invalid_request"
			writeJSON(w, status, e)
		}
		switch version := r.Header.Get("API-Version"); {
		case !strings.EqualFold(scheme, "Bearer") || token == "":
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(http.StatusUnauthorized, acpError{Code: "unauthorized", Message: "Authorization: Bearer TOKEN is required"})
		case version == "":
			refuse(http.StatusBadRequest, acpError{Code: "missing_api_version", Message: "API-Version is required", Supported: []string{acpVersion}})
		case version != acpVersion:
			refuse(http.StatusBadRequest, acpError{Code: "unsupported_api_version", Message: fmt.Sprintf("API-Version %q is not supported", version), Supported: []string{acpVersion}})
		default:
			next.ServeHTTP(w, withClient(r, clientBy("acp", token)))
		}
	})
}

// items reads the body of a creation or an update (4.1, 4.2).
func (acp) items(r *http.Request) ([]want, error) {
	var body struct {
		Items []acpItem `json:"items"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	var wanted []want
	for i, item := range body.Items {
		wanted = append(wanted, want{item.ID, item.Quantity, fmt.Sprintf("$.items[%d].id", i)})
	}
	return checked("items", wanted)
}

// token reads the credential of the payment instrument (4.4).
func (acp) token(r *http.Request) (string, error) {
	var body struct {
		Payment struct {
			Instrument struct {
				Credential struct {
					Token string `json:"token"`
				} `json:"credential"`
			} `json:"instrument"`
		} `json:"payment_data"`
	}
	err := read(r, &body)
	token := body.Payment.Instrument.Credential.Token
	if err == nil && token == "" {
		err = invalid("$.payment_data.instrument.credential.token", "is missing")
	}
	return token, err
}

// fault writes the flat error of 3.1. A closed session is 405 (4.5).
func (acp) fault(w http.ResponseWriter, f fault) {
	kind := "invalid_request"
	if f.code == unavailable {
		f.code = "invalid"
	}
	switch f.status {
	case http.StatusServiceUnavailable:
		kind = "service_unavailable"
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodGet)
	}
	writeJSON(w, f.status, acpError{Type: kind, Code: f.code, Message: f.message, Param: f.path})
}

// The form of a session, section 4.1 and 5.
type (
	acpSession struct {
		ID        string       `json:"id"`
		Status    string       `json:"status"`
		Currency  string       `json:"currency"`
		LineItems []acpLine    `json:"line_items"`
		Totals    []acpTotal   `json:"totals"`
		Messages  []acpMessage `json:"messages"`
		Links     []struct{}   `json:"links"`
		Order     *acpOrder    `json:"order,omitempty"`
	}
	acpLine struct {
		ID         string  `json:"id"`
		Item       acpItem `json:"item"`
		Name       string  `json:"name"`
		BaseAmount int64   `json:"base_amount"`
		Discount   int64   `json:"discount"`
		Subtotal   int64   `json:"subtotal"`
		Tax        int64   `json:"tax"`
		Total      int64   `json:"total"`
	}
	acpItem struct {
		ID       string `json:"id"`
		Quantity int64  `json:"quantity"`
	}
	acpTotal struct {
		Type        string `json:"type"`
		DisplayText string `json:"display_text"`
		Amount      int64  `json:"amount"`
	}
	acpMessage struct {
		Type        string `json:"type"`
		Code        string `json:"code"`
		ContentType string `json:"content_type"`
		Content     string `json:"content"`
	}
	acpOrder struct {
		ID        string `json:"id"`
		SessionID string `json:"checkout_session_id"`
		Permalink string `json:"permalink_url"`
	}
)

var acpStatus = map[status]string{ready: "ready_for_payment", completing: "in_progress", completed: "completed", canceled: "canceled"}

func (acp) session(w http.ResponseWriter, status int, s *session) {
	form := acpSession{ID: s.ID, Status: acpStatus[s.Status], Currency: "usd", Messages: []acpMessage{}, Links: []struct{}{}}
	for i, l := range s.Lines {
		amount := l.Price * l.Quantity
		form.LineItems = append(form.LineItems, acpLine{
			ID: fmt.Sprintf("line_%d", i+1), Item: acpItem{l.Item, l.Quantity}, Name: l.Title, BaseAmount: amount, Subtotal: amount, Total: amount,
		})
	}
	form.Totals = []acpTotal{{"items_base_amount", "Items", s.total()}, {"subtotal", "Subtotal", s.total()}, {"total", "Total", s.total()}}
	if s.Refused != "" {
		form.Messages = []acpMessage{{"error", string(s.Refused), "plain", explained[s.Refused]}}
	}
	if s.Order != "" {
		form.Order = &acpOrder{s.Order, s.ID, permalink(s.Order)}
	}
	writeJSON(w, status, form)
}
