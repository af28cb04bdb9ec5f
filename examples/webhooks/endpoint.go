package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// event is the body of a delivery.
type event struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		Order string `json:"order"`
	} `json:"data"`
}

// shipper ships an order, once for each key.
type shipper func(ctx context.Context, key, order string) (number int, err error)

// endpoint receives the events of two providers.
type endpoint struct {
	http.Handler
	engines []*core.Engine
	ship    shipper
	mail    func(order string)
}

// newEndpoint serves two routes:
//   - POST /webhooks/acme: the header webhook-id names the event;
//   - POST /webhooks/initech: the member id of the body names the event, because this
//     provider makes a new webhook-id when a person sends an event again.
func newEndpoint(store storage.Store, secret string, ship shipper, mail func(string)) (*endpoint, error) {
	if secret == "" {
		return nil, errors.New("webhooks: the secret is empty: anybody could sign with it")
	}
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, err
	}
	e := &endpoint{ship: ship, mail: mail}
	mux := http.NewServeMux()
	if err := errors.Join(e.byHeader(mux, store, webhook), e.byField(mux, store, webhook)); err != nil {
		return nil, err
	}
	e.Handler = mux
	return e, nil
}

// byHeader mounts the route of a provider that names each event in webhook-id.
func (e *endpoint) byHeader(mux *http.ServeMux, store storage.Store, webhook *standardwebhooks.Webhook) error {
	receive := http.HandlerFunc(e.receive)
	provider := func(*http.Request) (string, error) { return "acme", nil } // the signature proves it
	engine, err := core.New(store, core.ScopeBy(provider), core.WithKeyHeader("webhook-id"), core.WithProblemWriter(writeProblem))
	if err != nil {
		return err
	}
	mux.Handle("POST /webhooks/acme", verified(webhook, engine.Handler(receive, once()...)))
	e.engines = append(e.engines, engine)
	return nil
}

// byField mounts the route of a provider that names each event in the body. Its engine
// does not read webhook-id: a header with another key would be refused.
func (e *endpoint) byField(mux *http.ServeMux, store storage.Store, webhook *standardwebhooks.Webhook) error {
	receive := http.HandlerFunc(e.receive)
	provider := func(*http.Request) (string, error) { return "initech", nil }
	engine, err := core.New(store, core.ScopeBy(provider), core.WithProblemWriter(writeProblem))
	if err != nil {
		return err
	}
	inBody := append(once(), policy.KeyField("id"), policy.ExcludeFields("delivery")) // delivery counts the attempts
	mux.Handle("POST /webhooks/initech", verified(webhook, engine.Handler(receive, inBody...)))
	e.engines = append(e.engines, engine)
	return nil
}

// once is the policy of both routes.
func once() []policy.Option {
	return []policy.Option{
		policy.TTLHours(96),                    // longer than the provider's redeliveries
		policy.RememberHours(30 * 24),          // longer than a person looks at failed deliveries
		policy.Wait(5 * time.Second),           // shorter than the provider's time-out
		policy.Classifier(failure.OnlySuccess), // a refused event is delivered again
	}
}

// receive ships a paid order.
func (e *endpoint) receive(w http.ResponseWriter, r *http.Request) {
	var received event
	if err := json.NewDecoder(r.Body).Decode(&received); err != nil {
		http.Error(w, "the body is not an event", http.StatusBadRequest)
		return
	}
	if received.Type != "invoice.paid" {
		w.WriteHeader(http.StatusNoContent) // an event of no interest is done, too
		return
	}
	number, err := e.ship(r.Context(), core.DeriveKey(r.Context(), "ship"), received.Data.Order)
	if err != nil {
		failure.MarkUncertain(r.Context()) // it may have shipped: the next delivery uses the same derived key
		http.Error(w, "no response from the warehouse", http.StatusBadGateway)
		return
	}
	failure.MarkExecuted(r.Context()) // from here on, no delivery ships again
	e.mail(received.Data.Order)
	fmt.Fprintf(w, "shipment %d\n", number)
}

// Shutdown waits for running handlers. Call it after http.Server.Shutdown.
func (e *endpoint) Shutdown(ctx context.Context) error {
	var all []error
	for _, engine := range e.engines {
		all = append(all, engine.Shutdown(ctx))
	}
	return errors.Join(all...)
}

// writeProblem is a problem.Writer for senders of webhooks. A sender reads only the
// status: a 2xx ends the redeliveries, any other status asks for another delivery. An
// event that was handled is therefore a 200, also when its response is gone. Otherwise the
// sender repeats the event for days, and may then disable the endpoint for all events.
//
// All other problems keep their status. After outcome_unknown and key_reused a person must
// look, and the provider's list of failed deliveries is the place to find them.
func writeProblem(w http.ResponseWriter, r *http.Request, p problem.Problem) {
	switch p.Code {
	case problem.KeyExpired, problem.NotReplayable, problem.HandlerFailed:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "handled before: %s\n", p.Code)
	default:
		problem.Write(w, r, p)
	}
}

// maxEvent bounds a body, before its signature is known to be right.
const maxEvent = 256 << 10

// verified lets only signed requests through. It stands outside the guard, so that a
// forged request reads no stored response and leaves no record.
func verified(webhook *standardwebhooks.Webhook, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvent))
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			http.Error(w, "the event is too large", http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(w, "the body was cut off", http.StatusBadRequest)
			return
		}
		switch err := webhook.Verify(body, r.Header); {
		case errors.Is(err, standardwebhooks.ErrRequiredHeaders), errors.Is(err, standardwebhooks.ErrInvalidHeaders):
			http.Error(w, "send webhook-id, webhook-timestamp and webhook-signature", http.StatusBadRequest)
			return
		case err != nil:
			http.Error(w, "the signature is wrong or too old", http.StatusUnauthorized)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body)) // the guard reads the body again
		next.ServeHTTP(w, r)
	})
}
