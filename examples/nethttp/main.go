// Nethttp is the shortest program that guards a payment on net/http alone.
//
//	go run ./examples/nethttp
//	curl -i -u alice:secret 127.0.0.1:8080/payments -H 'Idempotency-Key: k1' -d amount=42
//
// A second call gets the first call's response, and X-Idempotent-Replay.
package main

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

func main() {
	engine, err := core.New(memstore.New(), core.ScopeBy(user))
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux() // the server itself recovers panics, outside of the guard
	mux.Handle("POST /payments", authenticate(engine.Handler(http.HandlerFunc(pay), policy.TTLHours(48), policy.LockTTL(time.Minute))))
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	server.Addr = cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	slog.Info("taking payments", "at", server.Addr)
	select {
	case err = <-ended:
	case <-ctx.Done():
		stop() // a second signal ends the program at once
		patience, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		err = errors.Join(server.Shutdown(patience), engine.Shutdown(patience)) // handlers first, then the engine's unfinished writes
		cancel()
	}
	if err != nil {
		slog.Error("the program failed", "error", err)
		os.Exit(1)
	}
}

// user returns the owner of the key. Authentication has checked the password before.
func user(r *http.Request) (string, error) {
	name, _, _ := r.BasicAuth()
	return name, nil // an empty name gets a 401
}

func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, _ := r.BasicAuth(); name != "alice" || subtle.ConstantTimeCompare([]byte(password), []byte("secret")) != 1 {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var payments atomic.Int64

func pay(w http.ResponseWriter, r *http.Request) {
	number := payments.Add(1)         // the side effect
	failure.MarkExecuted(r.Context()) // from here on the response is kept
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "payment %d\n", number)
}
