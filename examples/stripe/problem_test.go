package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/stripe/stripe-go/v84"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/examples/stripe"
	"github.com/oncekey/oncekey/failure"
)

const (
	retries  = 4
	deadline = time.Minute
)

// server counts the requests that arrive.
type server struct {
	*httptest.Server
	requests atomic.Int32
}

func serve(t *testing.T, handler http.Handler) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handler.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// pay creates a payment intent by stripe-go.
func (s *server) pay(t *testing.T, key string, amount int64) (*client.PaymentIntent, error) {
	t.Helper()
	backend := client.GetBackendWithConfig(client.APIBackend, &client.BackendConfig{
		URL: client.String(s.URL), MaxNetworkRetries: client.Int64(retries), LeveledLogger: &client.LeveledLogger{Level: client.LevelNull},
		// net/http repeats a request with this header by itself when a kept connection breaks: here requests are counted.
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: deadline},
	})
	backend.(*client.BackendImplementation).SetNetworkRetriesSleep(false)
	stripeClient := client.NewClient("sk_test_1", client.WithBackends(&client.Backends{API: backend, Connect: backend, Uploads: backend}))
	params := &client.PaymentIntentCreateParams{Amount: &amount, Currency: client.String("eur")}
	params.SetIdempotencyKey(key)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	return stripeClient.V1PaymentIntents.Create(ctx, params)
}

func guarded(t *testing.T, handle http.HandlerFunc) http.Handler {
	t.Helper()
	engine, err := core.New(memstore.New(), core.SharedScope, core.WithProblemWriter(stripe.WriteProblem),
		core.WithObserver(event.Log(slog.New(slog.DiscardHandler))))
	if err != nil {
		t.Fatal(err)
	}
	return engine.Handler(handle)
}

// expectError wants an error as Stripe's own are decoded.
func expectError(t *testing.T, err error, status int, code string) {
	t.Helper()
	var decoded *client.Error
	if !errors.As(err, &decoded) || decoded.HTTPStatusCode != status || decoded.Type != client.ErrorTypeIdempotency || string(decoded.Code) != code || decoded.Msg == "" {
		t.Errorf("got %v, want an idempotency error with status %d, code %s and a message", err, status, code)
	}
}

// Case 72: stripe-go repeats the temporary problems, takes the others as final, and decodes all of them.
func TestEveryProblem(t *testing.T) {
	t.Parallel()
	for _, p := range []problem.Problem{
		{Status: 400, Code: problem.KeyInvalid},
		{Status: 401, Code: problem.PrincipalMissing},
		{Status: 409, Code: problem.InProgress, RetryAfter: time.Second},
		{Status: 409, Code: problem.NotReplayable},
		{Status: 409, Code: problem.KeyExpired},
		{Status: 409, Code: problem.OutcomeUnknown},
		{Status: 413, Code: problem.BodyTooLarge},
		{Status: 422, Code: problem.KeyReused},
		{Status: 500, Code: problem.HandlerFailed},
		{Status: 503, Code: problem.StoreUnavailable, RetryAfter: 1500 * time.Millisecond},
	} {
		t.Run(p.Code, func(t *testing.T) {
			t.Parallel()
			p.Detail = "Do this."
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { stripe.WriteProblem(w, r, p) }))
			_, err := s.pay(t, "key-1", 100)
			status, code, requests := p.Status, p.Code, int32(1)
			if p.RetryAfter > 0 {
				status, code, requests = http.StatusTooManyRequests, "lock_timeout", 1+retries
			}
			expectError(t, err, status, code)
			if got := s.requests.Load(); got != requests {
				t.Errorf("%d requests arrived, want %d", got, requests)
			}
		})
	}
}

// Case 72: the first response is lost, the second request meets the first one while it runs. There is one charge, and
// stripe-go gets it. Another payment under the key is refused at once.
func TestPaymentThroughFaults(t *testing.T) {
	t.Parallel()
	var charges, conflicts atomic.Int32
	var lost atomic.Bool
	var running sync.WaitGroup
	defer running.Wait()
	began, met := make(chan struct{}), make(chan struct{})
	pay := guarded(t, func(w http.ResponseWriter, r *http.Request) {
		if charges.Add(1) == 1 {
			close(began)
		}
		failure.MarkExecuted(r.Context())
		select {
		case <-met:
		case <-time.After(deadline):
			t.Error("no other request came while the payment ran")
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"pi_1","object":"payment_intent","amount":100}`)
	})
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		if lost.CompareAndSwap(false, true) {
			running.Go(func() { pay.ServeHTTP(recorder, r) })
			<-began
			panic(http.ErrAbortHandler) // the client sees the connection end
		}
		if pay.ServeHTTP(recorder, r); recorder.Code == http.StatusTooManyRequests && conflicts.Add(1) == 1 {
			close(met)
		}
		maps.Copy(w.Header(), recorder.Header())
		w.WriteHeader(recorder.Code)
		w.Write(recorder.Body.Bytes())
	}))
	intent, err := s.pay(t, "key-1", 100)
	if err != nil || intent.ID != "pi_1" || charges.Load() != 1 || conflicts.Load() == 0 {
		t.Fatalf("got %+v and %v after %d charges and %d conflicts, want pi_1 after one charge and a conflict", intent, err, charges.Load(), conflicts.Load())
	}
	s.requests.Store(0)
	_, err = s.pay(t, "key-1", 900)
	expectError(t, err, http.StatusUnprocessableEntity, problem.KeyReused)
	if s.requests.Load() != 1 || charges.Load() != 1 {
		t.Errorf("%d requests and %d charges, want one of each", s.requests.Load(), charges.Load())
	}
}

// docs/clients.md has the writer as it is here.
func TestDocumentationHasTheWriter(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	_, function, found := strings.Cut(string(source), "\nfunc WriteProblem(")
	if !found || !strings.Contains(string(page), "```go\nfunc WriteProblem("+function+"```\n") {
		t.Error("docs/clients.md does not have the function WriteProblem as problem.go has it")
	}
}
