package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// The rules of UCP's checkout-rest.md and signatures.md at the merchant's endpoints, one test a
// rule. The tests of adapters/commerce have every case of a rule.

const (
	ucpLines = `{"line_items":[{"item":{"id":"mug","title":"Mug"},"quantity":2}],"currency":"USD","payment":{"instruments":[]}}`
	ucpPay   = `{"payment":{"instruments":[{"id":"instr_1","handler_id":"mock","type":"card","selected":true,"credential":{"type":"token","token":"success_token"}}]},"risk_signals":{}}`
)

// ucpKey returns a key of 128 bits, as the protocol demands.
func ucpKey(n string) string { return "550e8400-e29b-41d4-a716-" + strings.Repeat("0", 12-len(n)) + n }

func (m *merchant) ucpSession(key string) string {
	m.Helper()
	return m.expect(http.StatusCreated, ucpRequest(http.MethodPost, "", ucpKey(key), ucpLines)).id()
}

// The published idempotency test: the same request gets an equal response, and another
// payload 409.
func TestUCPReplayProtection(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		bought, dropped := "/"+m.ucpSession("1"), "/"+m.ucpSession("2")
		for _, row := range []struct {
			status           int
			r                request
			original, change string
		}{
			{http.StatusCreated, ucpRequest(http.MethodPost, "", ucpKey("3"), ucpLines), `"USD"`, `"EUR"`},
			{http.StatusOK, ucpRequest(http.MethodPut, bought, ucpKey("3"), ucpLines), `"quantity":2`, `"quantity":3`},
			{http.StatusOK, ucpRequest(http.MethodPost, bought+"/complete", ucpKey("3"), ucpPay), "success_token", "different_token"},
			{http.StatusOK, ucpRequest(http.MethodPost, dropped+"/cancel", ucpKey("3"), ""), "", "{}"},
		} {
			first := m.expect(row.status, row.r)
			m.replays(first, row.r)
			if a := m.expect(http.StatusConflict, row.r.withBody(strings.Replace(row.r.body, row.original, row.change, 1))); a.member("code") != "key_reused" || a.header.Get("Retry-After") != "" {
				m.Errorf("%s with another payload got %s %v", row.r.path, a.body, a.header)
			}
			m.replays(first, row.r)
		}
		m.expectEffects(effects{charges: 1, charged: 3000, orders: 1, mugs: 2})
	})
}

// Entropy: a key has at least 128 bits, and every change of state needs one.
func TestUCPReplayProtectionKeys(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		path := "/" + m.ucpSession("1")
		for key, code := range map[string]string{"": "key_missing", "order-1": "key_invalid"} {
			for _, r := range []request{
				ucpRequest(http.MethodPost, "", key, ucpLines), ucpRequest(http.MethodPut, path, key, ucpLines),
				ucpRequest(http.MethodPost, path+"/complete", key, ucpPay), ucpRequest(http.MethodPost, path+"/cancel", key, ""),
			} {
				if a := m.expect(http.StatusBadRequest, r); a.member("code") != code || a.member("content") == "" {
					m.Errorf("%s under %q got %s", r.path, key, a.body)
				}
			}
		}
	})
}

// Keys are separate for each platform and each operation, and sessions for each platform.
func TestUCPReplayProtectionScope(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		ids := map[string]bool{}
		for _, platform := range []string{`profile="https://a.example/p"`, `v=1, profile="https://b.example/p"`} {
			id := m.expect(http.StatusCreated, ucpRequest(http.MethodPost, "", ucpKey("1"), ucpLines).with("UCP-Agent", platform)).id()
			m.expect(http.StatusNotFound, ucpRequest(http.MethodPost, "/"+id+"/complete", ucpKey("1"), ucpPay))
			m.expect(http.StatusOK, ucpRequest(http.MethodPost, "/"+id+"/complete", ucpKey("1"), ucpPay).with("UCP-Agent", platform))
			ids[id] = true
		}
		testkit.Equal(m, len(ids), 2, "two platforms have the sessions %v", ids)
	})
}

// "Specific Header Requirements": every request has a UCP-Agent.
func TestUCPAgentIsRequired(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		path := "/" + m.ucpSession("1")
		for _, given := range []string{"", "agent", `profile="http://agent.example"`} {
			for _, r := range []request{ucpRequest(http.MethodPost, path+"/cancel", ucpKey("2"), ""), ucpRequest(http.MethodGet, path, "", "")} {
				if a := m.expect(http.StatusBadRequest, r.with("UCP-Agent", given)); a.member("code") != "invalid_profile_url" {
					m.Errorf("%s with UCP-Agent %q got %s", r.path, given, a.body)
				}
			}
		}
		m.expect(http.StatusOK, ucpRequest(http.MethodPost, path+"/cancel", ucpKey("2"), "")) // the key was not used
	})
}

// "Business Outcomes" have status 200. They are kept like every response, and the next choice
// has another key.
func TestUCPBusinessOutcomes(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		outcome := func(code string, r request) {
			m.Helper()
			first := m.expect(http.StatusOK, r)
			messages, _ := first.member("messages").([]any)
			if len(messages) != 1 || messages[0].(map[string]any)["code"] != code {
				m.Errorf("%s got %s, want the message %s", r.path, first.body, code)
			}
			m.replays(first, r)
		}
		outcome("item_unavailable", ucpRequest(http.MethodPost, "", ucpKey("1"), strings.Replace(ucpLines, "mug", "car", 1)))
		id := m.ucpSession("2")
		outcome("item_unavailable", ucpRequest(http.MethodPut, "/"+id, ucpKey("1"), strings.Replace(ucpLines, "mug", "car", 1)))

		complete := ucpRequest(http.MethodPost, "/"+id+"/complete", ucpKey("3"), ucpPay)
		outcome("payment_failed", complete.withBody(strings.Replace(ucpPay, "success_token", tokenDeclined, 1)))
		m.expectEffects(effects{})
		done := m.expect(http.StatusOK, complete.withKey(ucpKey("4")))
		if done.member("status") != "completed" || done.member("order", "permalink_url") == "" {
			m.Errorf("with another card: %s", done.body)
		}

		rare := m.expect(http.StatusCreated, ucpRequest(http.MethodPost, "", ucpKey("5"), `{"line_items":[{"item":{"id":"mug"},"quantity":1},{"item":{"id":"poster"},"quantity":4}]}`)).id()
		outcome("out_of_stock", ucpRequest(http.MethodPost, "/"+rare+"/complete", ucpKey("3"), ucpPay))
		m.expect(http.StatusOK, ucpRequest(http.MethodPut, "/"+rare, ucpKey("6"), `{"line_items":[{"item":{"id":"poster"},"quantity":3}]}`))
		m.expect(http.StatusOK, ucpRequest(http.MethodPost, "/"+rare+"/complete", ucpKey("7"), ucpPay))
		m.expectEffects(effects{charges: 2, charged: 3000 + 27000, orders: 2, mugs: 2})
	})
}

// A session that is completed or canceled does not change under another key.
func TestUCPClosedSessions(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		for n, end := range map[string]string{"1": "/complete", "2": "/cancel"} {
			path := "/" + m.ucpSession(n)
			ended := m.expect(http.StatusOK, ucpRequest(http.MethodPost, path+end, ucpKey("3"), ucpPay))
			for _, late := range []request{
				ucpRequest(http.MethodPost, path+"/complete", ucpKey("4"), ucpPay), ucpRequest(http.MethodPost, path+"/cancel", ucpKey("4"), ""), ucpRequest(http.MethodPut, path, ucpKey("4"), ucpLines),
			} {
				if a := m.expect(http.StatusConflict, late); a.member("code") != "session_closed" || a.header.Get("Retry-After") != "" {
					m.Errorf("%s got %s %v", late.path, a.body, a.header)
				}
			}
			testkit.Equal(m, m.expect(http.StatusOK, ucpRequest(http.MethodGet, path, "", "")).body, ended.body, "the session")
		}
		m.expectEffects(effects{charges: 1, charged: 3000, orders: 1, mugs: 2})
	})
}
