// Command program prints the calls of a first request and of its replay, as JSON.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/calls/record"
)

// silent observes events without a log line.
type silent struct{}

func (silent) Observe(context.Context, event.Event) {}

type request struct {
	Name  string
	Trace []int
}

func main() {
	bearer := func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }
	engine, err := core.New(memstore.New(), core.ScopeBy(bearer), core.WithObserver(silent{}))
	if err != nil {
		log.Fatal(err)
	}
	router := chi.NewRouter()
	router.With(idemchi.New(engine).Policy()).Post("/payments", pay)
	send(router, "warm-up") // work that is done once for each program is not counted
	send(router, "warm-up")
	first, replayed := send(router, "k")
	if replayed {
		log.Fatal("the first request is a replay")
	}
	replay, replayed := send(router, "k")
	if !replayed {
		log.Fatal("the second request is no replay")
	}
	if err := json.NewEncoder(os.Stdout).Encode([]request{{"first request", first}, {"replay", replay}}); err != nil {
		log.Fatal(err)
	}
}

func pay(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"payment_id":"pay_e6b11b98"}`)
}

// send sends a request of 300 bytes, and returns its calls and whether the response is a replay.
func send(handler http.Handler, key string) (trace []int, replayed bool) {
	const order = `{"order_id":"o-1042","amount":4200,"currency":"EUR","customer":{"id":"c-77","country":"DE"},"note":"`
	body := order + strings.Repeat("n", 300-len(order)-2) + `"}`
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/payments", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer alice")
	r.Header.Set(core.KeyHeader, key)
	w := httptest.NewRecorder()
	record.Begin()
	handler.ServeHTTP(w, r)
	trace = record.Stop()
	if w.Code != http.StatusCreated {
		log.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return trace, w.Header().Get("X-Idempotent-Replay") == "true"
}
