package main

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// The rules of ACP's rfc.agentic_checkout.md at the merchant's endpoints, one test a rule, named
// by its section. The tests of adapters/commerce have every case of a rule.

const (
	acpCart = `{"items":[{"id":"mug","quantity":2}],"buyer":{"first_name":"John","last_name":"Smith","email":"john@example.com"},` +
		`"fulfillment_details":{"name":"John Smith","address":{"line_one":"1234 Chat Road","city":"San Francisco","state":"CA","country":"US","postal_code":"94102"}}}`
	acpPay = `{"buyer":{"first_name":"John","last_name":"Smith","email":"john@example.com"},"payment_data":{"handler_id":"card_tokenized",` +
		`"instrument":{"type":"card","credential":{"type":"spt","token":"spt_123"}},"billing_address":{"line_one":"1234 Chat Road","country":"US"}}}`
)

// acpSession creates a session, and returns its id.
func (m *merchant) acpSession(key string) string {
	m.Helper()
	return m.expect(http.StatusCreated, acpPost("", key, acpCart)).id()
}

func TestACP31Headers(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		create := acpPost("", "k", acpCart)
		for _, refused := range []struct {
			r      request
			status int
			body   string
		}{
			{create.with("Authorization", ""), http.StatusUnauthorized, `{"type":"invalid_request","code":"unauthorized","message":"Authorization: Bearer TOKEN is required"}`},
			{create.with("API-Version", ""), http.StatusBadRequest, `{"type":"invalid_request","code":"missing_api_version","message":"API-Version is required","supported_versions":["2026-04-17"]}`},
			{create.with("API-Version", "2020-01-01"), http.StatusBadRequest, `{"type":"invalid_request","code":"unsupported_api_version","message":"API-Version \"2020-01-01\" is not supported","supported_versions":["2026-04-17"]}`},
		} {
			a := m.expect(refused.status, refused.r)
			if strings.TrimSpace(a.body) != refused.body || a.header.Get("Idempotency-Key") != "k" {
				m.Errorf("got %s %v, want %s", a.body, a.header, refused.body)
			}
		}
		made := m.expect(http.StatusCreated, create) // a refused request has not used its key
		if made.header.Get("Idempotency-Key") != "k" || made.header.Get("Request-Id") != "r-1" {
			m.Errorf("the response has the header %v", made.header)
		}
		if again := m.replays(made, create.with("Request-Id", "r-2")); again.header.Get("Idempotency-Key") != "k" || again.header.Get("Request-Id") != "r-2" {
			m.Errorf("the replay has the header %v", again.header)
		}
	})
}

// 4.1 to 4.5: the life of a session, with the statuses of each operation.
func TestACP4Lifecycle(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		made := m.expect(http.StatusCreated, acpPost("", "create", acpCart))
		if made.member("status") != "ready_for_payment" || made.member("currency") != "usd" || made.member("order") != nil {
			m.Errorf("a new session is %s", made.body)
		}
		path := "/" + made.id()
		changed := m.expect(http.StatusOK, acpPost(path, "update", `{"items":[{"id":"mug","quantity":1}]}`))
		show := acpGet(path)
		if shown := m.expect(http.StatusOK, show); shown.body != changed.body || !strings.Contains(shown.body, `"type":"total","display_text":"Total","amount":1500`) {
			m.Errorf("the session is %s, and after its change %s", shown.body, changed.body)
		}
		done := m.expect(http.StatusOK, acpPost(path+"/complete", "complete", acpPay))
		if done.member("status") != "completed" || done.member("order", "checkout_session_id") != made.id() || done.member("order", "id") == "" || done.member("order", "permalink_url") == "" {
			m.Errorf("the completed session is %s", done.body)
		}
		for _, late := range []request{acpPost(path+"/complete", "k1", acpPay), acpPost(path+"/cancel", "k1", ""), acpPost(path, "k1", acpCart)} {
			if a := m.expect(http.StatusMethodNotAllowed, late); a.header.Get("Allow") != "GET" || a.member("type") != "invalid_request" {
				m.Errorf("%s got %s %v", late.path, a.body, a.header)
			}
		}
		canceled := "/" + m.acpSession("create-2")
		if a := m.expect(http.StatusOK, acpPost(canceled+"/cancel", "k2", "")); a.member("status") != "canceled" {
			m.Errorf("the canceled session is %s", a.body)
		}
		m.expect(http.StatusMethodNotAllowed, acpPost(canceled+"/cancel", "k3", ""))
		m.expect(http.StatusMethodNotAllowed, acpPost(canceled+"/complete", "k3", acpPay))
		m.expect(http.StatusNotFound, acpPost("/cs_unknown/cancel", "k3", ""))
		m.expect(http.StatusNotFound, show.with("Authorization", "Bearer other"))
		m.expectEffects(effects{charges: 1, charged: 1500, orders: 1, mugs: 1})
	})
}

// 3.1: errors are flat, and name the place by a JSONPath.
func TestACP31Errors(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		path := "/" + m.acpSession("create")
		for body, param := range map[string]string{
			`{"items":[{"id":"mug","quantity":1},{"id":"car","quantity":1}]}`: "$.items[1].id",
			`{"items":[{"id":"mug","quantity":0}]}`:                           "$.items[0].quantity",
			`{"items":[]}`:                                                    "$.items",
			`{"items":`:                                                       "$",
			acpCart + `}`:                                                     "$",
		} {
			for _, at := range []string{"", path} {
				if a := m.expect(http.StatusBadRequest, acpPost(at, strconv.Itoa(len(body)), body)); a.member("type") != "invalid_request" || a.member("code") != "invalid" || a.member("param") != param || a.member("message") == "" {
					m.Errorf("%s got %s, want the param %s", body, a.body, param)
				}
			}
		}
		if a := m.expect(http.StatusBadRequest, acpPost(path+"/complete", "k", `{}`)); a.member("param") != "$.payment_data.instrument.credential.token" {
			m.Errorf("a completion without a payment got %s", a.body)
		}
	})
}

func TestACP61EveryPostNeedsAKey(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		path := "/" + m.acpSession("create")
		for _, r := range []request{acpPost("", "", acpCart), acpPost(path, "", acpCart), acpPost(path+"/complete", "", acpPay), acpPost(path+"/cancel", "", "")} {
			if a := m.expect(http.StatusBadRequest, r); a.member("code") != "idempotency_key_required" || a.member("type") != "invalid_request" {
				m.Errorf("%s got %s", r.path, a.body)
			}
		}
		m.expect(http.StatusCreated, acpPost("", strings.Repeat("k", 255), acpCart))
		m.expect(http.StatusBadRequest, acpPost("", strings.Repeat("k", 256), acpCart))
		m.expectEffects(effects{})
	})
}

// Keys are separate for each identity and each path: one key serves all of a checkout.
func TestACP61Scope(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		for _, agent := range []string{"Bearer a", "Bearer b"} {
			id := m.expect(http.StatusCreated, acpPost("", "k", acpCart).with("Authorization", agent)).id()
			m.expect(http.StatusOK, acpPost("/"+id, "k", acpCart).with("Authorization", agent))
			m.expect(http.StatusOK, acpPost("/"+id+"/complete", "k", acpPay).with("Authorization", agent))
		}
		m.expectEffects(effects{charges: 2, charged: 6000, orders: 2, mugs: 4})
	})
}

func TestACP62Equivalence(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		create := acpPost("", "k", `{"items":[{"id":"mug","quantity":2},{"id":"poster","quantity":1}],"buyer":{"email":null}}`)
		first := m.expect(http.StatusCreated, create)
		for _, equal := range []string{
			`{"buyer":{"email":null},"items":[{"quantity":2,"id":"mug"},{"quantity":1,"id":"poster"}]}`,
			`{ "items": [ {"id":"mug","quantity":2.0}, {"id":"poster","quantity":1} ], "buyer": {"email":null} }`,
		} {
			m.replays(first, create.withBody(equal).with("Timestamp", "2026-04-17T12:00:09Z"))
		}
		for _, other := range []string{
			`{"items":[{"id":"poster","quantity":1},{"id":"mug","quantity":2}],"buyer":{"email":null}}`,
			`{"items":[{"id":"mug","quantity":2},{"id":"poster","quantity":1}],"buyer":{}}`,
		} {
			m.expect(http.StatusUnprocessableEntity, create.withBody(other))
		}
	})
}

// The same key and body get the original response on every endpoint, and nothing runs again.
func TestACP63Replay(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		bought, dropped := "/"+m.acpSession("create-1"), "/"+m.acpSession("create-2")
		for _, row := range []struct {
			status int
			r      request
		}{
			{http.StatusCreated, acpPost("", "k", acpCart)},
			{http.StatusOK, acpPost(bought, "k", `{"items":[{"id":"mug","quantity":3}]}`)},
			{http.StatusOK, acpPost(bought+"/complete", "k", acpPay)},
			{http.StatusOK, acpPost(dropped+"/cancel", "k", "")},
			{http.StatusMethodNotAllowed, acpPost(dropped+"/complete", "k", acpPay)},
		} {
			first := m.expect(row.status, row.r)
			for range 3 {
				m.replays(first, row.r)
			}
		}
		m.expectEffects(effects{charges: 1, charged: 4500, orders: 1, mugs: 3})
	})
}

func TestACP64Conflict(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		path := "/" + m.acpSession("create")
		complete := acpPost(path+"/complete", "k", acpPay)
		m.expect(http.StatusOK, complete)
		a := m.expect(http.StatusUnprocessableEntity, complete.withBody(strings.Replace(acpPay, "spt_123", "spt_456", 1)))
		if a.member("code") != "idempotency_conflict" || a.member("type") != "invalid_request" || a.header.Get("Retry-After") != "" {
			m.Errorf("got %s %v", a.body, a.header)
		}
		m.expectEffects(effects{charges: 1, charged: 3000, orders: 1, mugs: 2})
	})
}
