// Checkout shows the use of an idempotency key on one page. Pay, click twice, lose the
// response, kill the pod in the middle of a payment, with and without a key, and watch
// the charges, the replays and the key's life.
//
//	go run ./examples/checkout   # then open http://127.0.0.1:8081
//
// One process simulates a whole deployment with real engines. Each page gets a shop
// of its own (shop.go): two pods over one store, a bank, and a balancer between
// the pods and the browser. A pod (pod.go) is an engine with its own connection to the
// store (link.go). The page draws the events of both engines and the observations of
// the balancer and the bank.
//
// A killed pod behaves like a dead process: its connections to the store and to its
// clients are cut, its handlers stop, and it settles and reports no run. Its earlier
// effects stay.
//
// A shop closes when its page is left, and all its data is bounded, so the program can
// be left running. It is an example to watch. The example to copy is
// examples/payments.
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/examples/internal/program"
)

func main() {
	program.Main(func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		flags := flag.NewFlagSet("checkout", flag.ExitOnError)
		addr := flags.String("addr", "127.0.0.1:8081", "listen on `host:port`; port 0 picks a free port")
		_ = flags.Parse(args) // it exits
		if err := serve(ctx, *addr, stdout, demoPace); err != nil {
			fmt.Fprintf(stderr, "checkout: %v\n", err)
			return 1
		}
		return 0
	})
}

// serve runs the program until ctx ends, and then shuts it down in order.
func serve(ctx context.Context, addr string, stdout io.Writer, pace pace) error {
	mall := newMall(pace)
	defer mall.end()
	server := newServer(mall)
	announce := func(address string) { fmt.Fprintf(stdout, "listening on http://%s\n", address) }
	return program.Serve(ctx, server, addr, announce, func(context.Context) error { return server.Close() })
}

func newServer(m *mall) *http.Server {
	server := &http.Server{
		Handler:           routes(m),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
	}
	// A browser repeats a request if it finds a kept connection broken. In this example
	// only the page may retry, so the server keeps no connections.
	server.SetKeepAlivesEnabled(false)
	return server
}

//go:embed web pod.go
var web embed.FS

// routes serves the page and the shops. A page of another site cannot pay.
func routes(m *mall) http.Handler {
	mux := http.NewServeMux()
	for path, file := range map[string]string{
		"/{$}":       "web/index.html",
		"/style.css": "web/style.css",
		"/app.js":    "web/app.js",
		"/draw.js":   "web/draw.js",
		"/log.js":    "web/log.js",
		"/view.js":   "web/view.js",
		"/words.js":  "web/words.js",
		"/pod.go":    "pod.go",
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			// The page loads no resource of another origin, and the browser enforces that.
			w.Header().Set("Content-Security-Policy",
				"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "+
					"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cache-Control", "no-cache")
			if path == "/pod.go" {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			}
			http.ServeFileFS(w, r, web, file)
		})
	}
	mux.HandleFunc("POST /shops", m.openShop)
	mux.HandleFunc("DELETE /shops/{shop}", m.closeShop)
	mux.HandleFunc("GET /shops/{shop}/notices", m.withShop((*shop).showNotices))
	mux.HandleFunc("GET /shops/{shop}/ledger", m.withShop((*shop).showLedger))
	mux.HandleFunc("/shops/{shop}/inspector/", m.withShop((*shop).inspect))
	mux.HandleFunc("POST /shops/{shop}/payments", m.withShop((*shop).balance))
	return http.NewCrossOriginProtection().Handler(mux)
}
