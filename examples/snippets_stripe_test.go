package examples_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v84"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
)

const (
	stripeRetries = 4
	stripeLimit   = time.Minute
)

// writeStripeProblem is a problem.Writer. Of the responses in Stripe's shape, stripe-go repeats only 429 lock_timeout, and other
// libraries follow Stripe-Should-Retry. A problem with Retry-After is temporary and gets both; every other problem is final.
func writeStripeProblem(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	header, status, code := w.Header(), p.Status, p.Code
	if p.RetryAfter > 0 {
		status, code = http.StatusTooManyRequests, "lock_timeout"
		header.Set("Retry-After", strconv.Itoa(int((p.RetryAfter+time.Second-1)/time.Second)))
	}
	header.Set("Stripe-Should-Retry", strconv.FormatBool(p.RetryAfter > 0))
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"type": "idempotency_error", "code": code, "message": p.Detail}})
}

// stripeServer counts the requests that arrive.
type stripeServer struct {
	*httptest.Server
	requests atomic.Int32
}

func serveStripe(t *testing.T, handler http.Handler) *stripeServer {
	t.Helper()
	s := &stripeServer{}
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
func (s *stripeServer) pay(t *testing.T, key string, amount int64) (*stripe.PaymentIntent, error) {
	t.Helper()
	backend := stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		URL: stripe.String(s.URL), MaxNetworkRetries: stripe.Int64(stripeRetries), LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
		// net/http repeats a request with this header by itself when a kept connection breaks: here requests are counted.
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: stripeLimit},
	})
	backend.(*stripe.BackendImplementation).SetNetworkRetriesSleep(false)
	stripeClient := stripe.NewClient("sk_test_1", stripe.WithBackends(&stripe.Backends{API: backend, Connect: backend, Uploads: backend}))
	params := &stripe.PaymentIntentCreateParams{Amount: &amount, Currency: stripe.String("eur")}
	params.SetIdempotencyKey(key)
	ctx, cancel := context.WithTimeout(t.Context(), stripeLimit)
	defer cancel()
	return stripeClient.V1PaymentIntents.Create(ctx, params)
}

func guardForStripe(t *testing.T, handle http.HandlerFunc) http.Handler {
	t.Helper()
	store, account := memstore.New(), func(*http.Request) (string, error) { return "acct_1", nil }
	engine, err := core.New(store, core.ScopeBy(account), core.WithProblemWriter(writeStripeProblem))
	testkit.Must(t, err)
	return engine.Handler(handle)
}

// wantStripeError wants an error as Stripe's own are decoded.
func wantStripeError(t *testing.T, err error, status int, code string) {
	t.Helper()
	var decoded *stripe.Error
	if !errors.As(err, &decoded) || decoded.HTTPStatusCode != status || decoded.Type != stripe.ErrorTypeIdempotency || string(decoded.Code) != code || decoded.Msg == "" {
		t.Errorf("got %v, want an idempotency error with status %d, code %s and a message", err, status, code)
	}
}

// Case 72: stripe-go repeats the temporary problems, takes the others as final, and decodes all of them.
func TestStripeDecodesEveryProblem(t *testing.T) {
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
			s := serveStripe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { writeStripeProblem(w, r, p) }))
			_, err := s.pay(t, "key-1", 100)
			status, code, requests := p.Status, p.Code, int32(1)
			if p.RetryAfter > 0 {
				status, code, requests = http.StatusTooManyRequests, "lock_timeout", 1+stripeRetries
			}
			wantStripeError(t, err, status, code)
			testkit.Equal(t, s.requests.Load(), requests, "requests that arrived")
		})
	}
}

// Case 72: the first response is lost, the second request meets the first one while it runs. There is one charge, and
// stripe-go gets it. Another payment under the key is refused at once.
func TestStripePaymentThroughFaults(t *testing.T) {
	t.Parallel()
	var charges, conflicts atomic.Int32
	var lost atomic.Bool
	var running sync.WaitGroup
	defer running.Wait()
	began, met := make(chan struct{}), make(chan struct{})
	pay := guardForStripe(t, func(w http.ResponseWriter, r *http.Request) {
		if charges.Add(1) == 1 {
			close(began)
		}
		failure.MarkExecuted(r.Context())
		select {
		case <-met:
		case <-time.After(stripeLimit):
			t.Error("no other request came while the payment ran")
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"pi_1","object":"payment_intent","amount":100}`)
	})
	s := serveStripe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	wantStripeError(t, err, http.StatusUnprocessableEntity, problem.KeyReused)
	if s.requests.Load() != 1 || charges.Load() != 1 {
		t.Errorf("%d requests and %d charges, want one of each", s.requests.Load(), charges.Load())
	}
}
