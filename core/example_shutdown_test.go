package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// A whole service on net/http. On SIGTERM the server stops accepting connections and waits for its handlers. Then the
// engine waits for the responses that the store has not taken yet. Close the store's client after both.
func ExampleEngine_Shutdown() {
	engine, err := core.New(memstore.New(), core.ScopeBy(func(r *http.Request) (string, error) {
		name, _, _ := r.BasicAuth()
		return name, nil // an empty name gets a 401
	}), quiet)
	if err != nil {
		panic(err)
	}
	payments := 0
	pay := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payments++                        // the side effect
		failure.MarkExecuted(r.Context()) // from here on the response is kept
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "payment ", payments)
	}), policy.TTLHours(48), policy.LockTTL(time.Minute))
	login := func(w http.ResponseWriter, r *http.Request) { // outside the guard: a stranger gets no stored response
		if name, password, _ := r.BasicAuth(); name != "alice" || password != "pw" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		pay.ServeHTTP(w, r)
	}
	mux := http.NewServeMux() // the server itself recovers panics, outside of the guard
	mux.HandleFunc("POST /payments", login)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()

	url := "http://" + listener.Addr().String() + "/payments"
	post(url, "alice", "pw")
	post(url, "alice", "pw") // the retry
	post(url, "alice", "guessed")
	stop() // ends ctx, as SIGTERM does

	select {
	case err = <-ended:
	case <-ctx.Done():
		// A stuck handler leaves the engine five seconds.
		handlers, cancelHandlers := context.WithTimeout(context.Background(), 15*time.Second)
		writes, cancelWrites := context.WithTimeout(context.Background(), 20*time.Second)
		err = errors.Join(server.Shutdown(handlers), engine.Shutdown(writes)) // handlers first, then the engine's unfinished writes
		cancelHandlers()
		cancelWrites()
	}
	fmt.Println("ended:", err)
	// Output:
	// 201 payment 1 replay: false
	// 201 payment 1 replay: true
	// 401 who are you? replay: false
	// ended: <nil>
}

// post pays over the network under a key, and prints the response.
func post(url, name, password string) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, http.NoBody)
	if err != nil {
		panic(err)
	}
	request.SetBasicAuth(name, password)
	request.Header.Set(core.KeyHeader, "8e03978e")
	request.Close = true // keeps no connection for another request
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d %s replay: %t\n", response.StatusCode, bytes.TrimSpace(body), response.Header.Get("X-Idempotent-Replay") == "true")
}
