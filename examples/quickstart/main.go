// Quickstart is the program of the README: a payment on chi, in memory.
//
//	go run ./examples/quickstart
//	curl -i -u alice:pw 127.0.0.1:8080/payments -H 'Idempotency-Key: k1' -d amount=42
package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

func main() {
	// Keys are separate per user, so two users can send the same key.
	engine, err := core.New(memstore.New(), core.ScopeBy(user), core.WithService("shop"))
	if err != nil {
		panic(err)
	}
	login := middleware.BasicAuth("shop", map[string]string{"alice": "pw"})
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, login) // outside the guard, which trusts names
	r.With(idemchi.New(engine).Policy(policy.TTLHours(48))).Post("/payments", pay)
	server := http.Server{Addr: "127.0.0.1:8080", Handler: r, ReadTimeout: time.Minute}
	panic(server.ListenAndServe())
}

func user(r *http.Request) (string, error) {
	name, _, _ := r.BasicAuth()
	return name, nil // an empty name gets 401
}

func pay(w http.ResponseWriter, r *http.Request) {
	id, err := charge(core.DeriveKey(r.Context(), "charge")) // one key for all attempts
	if err != nil {
		failure.MarkUncertain(r.Context()) // it may have charged: OnAbandoned decides
		http.Error(w, "no response from the provider", http.StatusBadGateway)
		return
	}
	failure.MarkExecuted(r.Context()) // it has charged: no retry runs this again
	fmt.Fprintln(w, id)
}

// charge stands for your payment provider, which charges once for each key.
var charge = func(key string) (string, error) { return "pay_" + key[:8], nil }
