package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestPayTwice(t *testing.T) {
	t.Parallel()
	engine, err := core.New(memstore.New(), core.ScopeBy(user), core.WithService("shop"))
	testkit.Must(t, err)
	guarded := engine.Handler(http.HandlerFunc(pay))
	send := func(name string) (int, string, bool) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", nil)
		r.Header.Set(core.KeyHeader, "k1")
		if name != "" {
			r.SetBasicAuth(name, "pw")
		}
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, r)
		return w.Code, w.Body.String(), w.Header().Get("X-Idempotent-Replay") == "true"
	}
	status, payment, replayed := send("alice")
	if status != http.StatusOK || len(payment) != len("pay_12345678\n") || replayed {
		t.Fatalf("the first request got %d %q, replayed %v", status, payment, replayed)
	}
	if status, again, replayed := send("alice"); status != http.StatusOK || again != payment || !replayed {
		t.Errorf("the retry got %d %q, replayed %v", status, again, replayed)
	}
	if status, other, replayed := send("bob"); status != http.StatusOK || other == payment || replayed {
		t.Errorf("another user's equal key got %d %q, replayed %v", status, other, replayed)
	}
	if status, _, _ := send(""); status != http.StatusUnauthorized {
		t.Errorf("a request without a user got %d, want 401", status)
	}
}
