package inspectorpage

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// shop is a service with one record in each state, and its inspector.
type shop struct {
	mux                  *http.ServeMux
	url                  string
	abandoned, completed string
}

type silent struct{}

func (silent) Observe(context.Context, event.Event) {}

func newShop(t *testing.T) *shop {
	t.Helper()
	events := inspector.Remember(silent{}, 1000)
	engine, err := core.New(memstore.New(), core.ScopeBy(func(*http.Request) (string, error) { return "alice", nil }),
		core.WithObserver(events), core.WithInstance("pod-a210"))
	testkit.Must(t, err)
	s := &shop{mux: http.NewServeMux()}
	begun, finish := make(chan struct{}), make(chan struct{})
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Do") {
		case "uncertain":
			failure.MarkUncertain(r.Context(), "the provider timed out")
			w.WriteHeader(http.StatusBadGateway)
			return
		case "decline":
			w.WriteHeader(http.StatusPaymentRequired)
			return
		case "stream":
			_ = http.NewResponseController(w).Flush()
			return
		case "slow":
			close(begun)
			<-finish
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Account", "a")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"payment_id":"p1","card":{"number":"4111111111111111"}}`))
	})
	s.mux.Handle("POST /payments", engine.Handler(pay, policy.TTLHours(48), policy.OnAbandoned(policy.Refuse), policy.ExcludeFields("clientTimestamp")))
	page, err := inspector.New(engine, func(*http.Request) (inspector.Operator, error) {
		return inspector.Operator{Name: "m.ortiz", May: inspector.Read | inspector.Reveal | inspector.Settle}, nil
	}, inspector.Remembered(events), inspector.Derived("charge"), inspector.LogLink("https://logs.example.com/?q=record:%s"))
	testkit.Must(t, err)
	s.mux.Handle("/ops/idempotency/", http.StripPrefix("/ops/idempotency", page))
	server := httptest.NewServer(s.mux)
	t.Cleanup(server.Close)
	s.url = address(server, "/ops/idempotency")

	s.pay("order-42", "uncertain")
	s.pay("order-42", "")
	for key, do := range map[string]string{"k1": "", "k2": "decline", "k3": "stream"} {
		s.pay(key, do)
	}
	s.pay("k1", "")
	ended := make(chan struct{})
	go func() { defer close(ended); s.pay("k4", "slow") }()
	<-begun
	t.Cleanup(func() { close(finish); <-ended })
	s.abandoned = engine.StorageKey("alice", http.MethodPost, "/payments", "order-42")
	s.completed = engine.StorageKey("alice", http.MethodPost, "/payments", "k1")
	return s
}

// pay sends a payment whose handler does something.
func (s *shop) pay(key, do string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/payments", strings.NewReader(`{"amount":4200,"order":"o-1","sentAt":"10:00"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(core.KeyHeader, key)
	r.Header.Set("Do", do)
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, r)
	return w
}
