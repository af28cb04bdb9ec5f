package examples_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

type stepReceipt struct{ ID string }

// shop counts the effects of an order.
type shop struct {
	charges, shipments int
	unreachable        bool
}

func (s *shop) charge(context.Context, string) (stepReceipt, error) {
	s.charges++
	return stepReceipt{fmt.Sprint("ch_", s.charges)}, nil
}

func (s *shop) ship(context.Context, string) (string, error) {
	if s.unreachable {
		return "", errors.New("connection refused")
	}
	s.shipments++
	return fmt.Sprint("sh_", s.shipments), nil
}

// The snippets and the transcript of docs/effects.md.
func TestStepsOfAnOrder(t *testing.T) {
	t.Parallel()
	provider := &shop{unreachable: true}
	warehouse := provider
	order := func(w http.ResponseWriter, r *http.Request) {
		receipt, err := core.Step(r.Context(), "charge", func(ctx context.Context) (stepReceipt, error) {
			return provider.charge(ctx, core.DeriveKey(ctx, "charge"))
		})
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		shipment, err := core.Step(r.Context(), "ship", func(ctx context.Context) (string, error) {
			return warehouse.ship(ctx, core.DeriveKey(ctx, "ship"))
		})
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"receipt": receipt.ID, "shipment": shipment})
	}
	router := newEngine(t).Handler(http.HandlerFunc(order), policy.TTLHours(48))

	var transcript strings.Builder
	for _, row := range []struct{ comment, payload string }{
		{"the warehouse is unreachable", `{"item":1}`},
		{"another payload under the same key", `{"item":2}`},
		{"the retry ships, and does not charge again", `{"item":1}`},
		{"a replay", `{"item":1}`},
	} {
		provider.unreachable = row.comment == "the warehouse is unreachable"
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", strings.NewReader(row.payload))
		r.Header.Set(core.KeyHeader, "8e03978e")
		w := httptest.NewRecorder()
		authenticate(router).ServeHTTP(w, r)
		body := w.Body.String()
		if w.Code == http.StatusUnprocessableEntity {
			body = `{..."code":"key_reused"...}` + "\n"
		}
		fmt.Fprintf(&transcript, "$ curl -d '%s' -H 'Idempotency-Key: 8e03978e' localhost:8080/orders   # %s\n%d %s", row.payload, row.comment, w.Code, body)
	}
	if provider.charges != 1 || provider.shipments != 1 {
		t.Errorf("%d charges, %d shipments", provider.charges, provider.shipments)
	}
	if page := readPage(t, "../docs/effects.md"); !strings.Contains(page.text, transcript.String()) {
		t.Errorf("docs/effects.md does not have this transcript:\n%s", &transcript)
	}
}
