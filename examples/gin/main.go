// Gin is the shortest program that guards a payment on gin.
//
//	go run ./examples/gin
//	curl -i -u alice:secret 127.0.0.1:8080/payments -H 'Idempotency-Key: k1' -d amount=42
//
// A second call gets the first call's response, and X-Idempotent-Replay.
package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
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
	idem := idemgin.New(engine)
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.ContextWithFallback = true                                          // a handler's c ends with its run
	r.Use(gin.Recovery(), gin.BasicAuth(gin.Accounts{"alice": "secret"})) // both outside the guard
	r.POST("/payments", idem.Handle(pay, policy.TTLHours(48), policy.LockTTL(time.Minute)))
	server := &http.Server{Handler: r, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute}
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

var payments atomic.Int64

func pay(c *gin.Context) {
	number := payments.Add(1) // the side effect
	failure.MarkExecuted(c)   // from here on the response is kept
	c.String(http.StatusCreated, "payment %d\n", number)
}
