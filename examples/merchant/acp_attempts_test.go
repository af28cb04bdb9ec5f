package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// While a completion runs, its retry is told to wait, and a completion under another key too.
// An agent that makes a new key after a timeout is not charged twice for one session.
func TestACP64InFlight(t *testing.T) {
	t.Parallel()
	for _, router := range []string{"chi", "gin"} {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			var g gate
			m := serveMerchant(t, router, func(b *backend) { g = gated(b) })
			path := "/" + m.acpSession("create")
			complete := acpPost(path+"/complete", "k", acpPay)
			first := make(chan answer, 1)
			go func() {
				a, _ := m.try(context.WithoutCancel(t.Context()), complete)
				first <- a
			}()
			g.await(t)
			if a := m.expect(http.StatusConflict, complete); a.member("code") != "idempotency_in_flight" || a.header.Get("Retry-After") != "1" {
				t.Errorf("the retry got %s %v", a.body, a.header)
			}
			m.expect(http.StatusUnprocessableEntity, complete.withBody(acpPay+" ").withBody(`{"payment_data":{}}`))
			for _, busy := range []request{complete.withKey("new"), acpPost(path, "new", acpCart), acpPost(path+"/cancel", "new", "")} {
				if a := m.expect(http.StatusConflict, busy); a.member("code") != "session_in_progress" || a.header.Get("Retry-After") != "1" {
					t.Errorf("%s under a new key got %s %v", busy.path, a.body, a.header)
				}
			}
			g.opened <- struct{}{}
			done := <-first
			if done.status != http.StatusOK || done.member("status") != "completed" {
				t.Fatalf("the first request got %d %s", done.status, done.body)
			}
			m.replays(done, complete)
			m.expect(http.StatusMethodNotAllowed, complete.withKey("new"))
			m.expectEffects(effects{charges: 1, charged: 3000, orders: 1, mugs: 2})
		})
	}
}

// An attempt that comes back after its session went on changes nothing.
func TestACP64LateAttempt(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"spt_123", tokenDeclined} {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			m := serveMerchant(t, "chi", func(b *backend) {
				charge := b.charge
				b.charge = func(ctx context.Context, key, token string, amount int64) (string, error) {
					id, err := charge(ctx, key, token, amount)
					_, broken := b.db.ExecContext(ctx, `UPDATE sessions SET operation = 'of another key'`)
					return id, errors.Join(err, broken)
				}
			})
			complete := acpPost("/"+m.acpSession("create")+"/complete", "k", strings.Replace(acpPay, "spt_123", token, 1))
			if a := m.expect(http.StatusConflict, complete); a.member("code") != "session_in_progress" {
				t.Errorf("got %s", a.body)
			}
			want := effects{mugs: 2} // they belong to the other key's completion
			if token != tokenDeclined {
				want.charges, want.charged = 1, 3000
			}
			m.expectEffects(want)
		})
	}
}

// A 5xx is not kept: the retry continues with the charge that the provider has made, and
// another body under the key is refused, because the charge may belong to it.
func TestACP65ServerErrorsAreNotKept(t *testing.T) {
	t.Parallel()
	for _, router := range []string{"chi", "gin"} {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			calls := 0
			m := serveMerchant(t, router, func(b *backend) {
				charge := b.charge
				b.charge = func(ctx context.Context, key, token string, amount int64) (string, error) {
					id, err := charge(ctx, key, token, amount)
					if calls++; calls == 1 {
						return "", errors.New("connection reset")
					}
					return id, err
				}
			})
			complete := acpPost("/"+m.acpSession("create")+"/complete", "k", acpPay)
			if a := m.expect(http.StatusServiceUnavailable, complete); a.member("type") != "service_unavailable" || a.replayed() {
				t.Errorf("got %s %v", a.body, a.header)
			}
			done := m.expect(http.StatusOK, complete)
			m.replays(done, complete)
			m.expectEffects(effects{charges: 1, charged: 3000, orders: 1, mugs: 2})
			testkit.Equal(t, calls, 2, "calls of the provider")
		})
	}
}

// Two creations under two keys are two sessions, and both can be bought: an agent that makes a
// new key after a timeout has ordered twice.
func TestNewKeyIsAnotherOrder(t *testing.T) {
	t.Parallel()
	onRouters(t, func(m *merchant) {
		for _, key := range []string{"intent", "intent-after-a-timeout"} {
			m.expect(http.StatusOK, acpPost("/"+m.acpSession(key)+"/complete", key, acpPay))
		}
		m.expectEffects(effects{charges: 2, charged: 6000, orders: 2, mugs: 4})
	})
}
