package examples_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	recoverer "github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/valyala/fasthttp"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// onFiber mounts a guarded handler. fasthttp uses the memory and the values of a request
// again for the next one, and the guard may store a response later.
func onFiber(guarded http.Handler) fiber.Handler {
	return func(c fiber.Ctx) error {
		return adaptor.HTTPHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			own := r.Clone(c.Context())
			own.Method, own.Host, own.RequestURI = strings.Clone(r.Method), strings.Clone(r.Host), strings.Clone(r.RequestURI)
			own.URL, _ = url.ParseRequestURI(own.RequestURI) // as the adaptor did
			own.Header = make(http.Header, len(r.Header))
			for name, values := range r.Header {
				own.Header.Set(strings.Clone(name), strings.Clone(values[0]))
			}
			guarded.ServeHTTP(w, own)
		}))(c)
	}
}

func TestOnFiber(t *testing.T) {
	t.Parallel()
	engine, app, runs := newEngine(t), fiber.New(fiber.Config{DisablePreParseMultipartForm: true}), 0
	app.Use(recoverer.New())
	pay := func(w http.ResponseWriter, r *http.Request) { // a handler of net/http
		runs++
		switch core.KeyFrom(r.Context()) {
		case "panicked":
			panic("the provider's client is nil")
		case "missing":
			http.Error(w, "no such account", http.StatusNotFound)
			return
		}
		failure.MarkExecuted(r.Context())
		w.WriteHeader(http.StatusCreated)
	}
	app.Post("/payments", onFiber(engine.Handler(http.HandlerFunc(pay), policy.TTLHours(48))))

	handle := func(r *http.Request) *http.Response {
		response, err := app.Test(r)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	wantStored(t, handle, "k", http.StatusCreated)
	wantStored(t, handle, "missing", http.StatusNotFound)
	for range 2 { // the key is released
		if status, _, replay := send(t, handle, "panicked"); status != http.StatusInternalServerError || replay != "" {
			t.Errorf("a panic is %d %q", status, replay)
		}
	}
	var form strings.Builder
	for part := range 8 {
		fmt.Fprintf(&form, "--b\r\nContent-Disposition: form-data; name=%d\r\n\r\n%d\r\n", part, part)
	}
	for _, replay := range []string{"", "true"} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", strings.NewReader(form.String()+"--b--\r\n"))
		request.Header = http.Header{"Content-Type": {"multipart/form-data; boundary=b"}, core.KeyHeader: {"form"}}
		response := handle(request)
		if got := response.Header.Get("X-Idempotent-Replay"); got != replay {
			t.Errorf("a form got %s %q, want %q", response.Status, got, replay)
		}
		testkit.Must(t, response.Body.Close())
	}
	if runs != 5 {
		t.Errorf("%d handlers ran, want 5", runs)
	}
}

// seenOnFiber sends what an observer sees of the end of each run.
type seenOnFiber chan string

func (s seenOnFiber) Observe(ctx context.Context, e event.Event) {
	if e.Ends() {
		s <- fmt.Sprint(ctx.Value(userKey{}), " ", e.Endpoint(), " ", e.KeyHash())
	}
}

// A response is stored while the next request of its connection is served.
func TestLateOnFiber(t *testing.T) {
	t.Parallel()
	store, seen := &testkit.Faulty{Store: memstore.New()}, make(seenOnFiber, 1)
	engine, err := core.New(store, core.SharedScope, core.WithObserver(seen))
	testkit.Must(t, err)
	app := fiber.New()
	app.Use(func(c fiber.Ctx) error {
		c.SetContext(context.WithValue(c.Context(), userKey{}, strings.Clone(c.Get("User"))))
		return c.Next()
	})
	app.Post("/payments", onFiber(engine.Handler(http.HandlerFunc(pay), policy.TTLHours(48))))
	connection, served := net.Pipe()
	defer connection.Close()
	server := fasthttp.Server{Handler: app.Handler()}
	go func() { _ = server.ServeConn(served) }()
	responses := bufio.NewReader(connection)
	call := func(method, path, user, key string) {
		fmt.Fprintf(connection, "%s %s HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: %s\r\nUser: %s\r\nContent-Length: 0\r\n\r\n", method, path, key, user)
		response, err := http.ReadResponse(responses, nil)
		testkit.Must(t, err)
		testkit.Must(t, response.Body.Close())
	}
	store.While(errors.New("the store is unreachable"), testkit.Complete, func() {
		call(http.MethodPost, "/payments", "alice", "key-of-alice")
		call(http.MethodGet, "/secrets!", "mallory", "key-of-mallory")
	})
	if got, want := <-seen, "alice POST /payments "+event.KeyHash("key-of-alice"); got != want {
		t.Errorf("the observer saw %q, want %q", got, want)
	}
}
