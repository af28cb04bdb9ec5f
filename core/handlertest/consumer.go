package handlertest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

// Message is a message of a queue, which the kit delivers until it is consumed.
type Message struct {
	// Key is equal in all deliveries, as a message's id is: the Call.Key.
	Key string
	// Body is the Body of the Request.
	Body []byte
}

// Consumer returns a handler for Service.Routes that delivers each request to consume, for
// a function that calls core.Do:
//
//	Routes: func(engine *core.Engine) http.Handler {
//		return handlertest.Consumer(func(ctx context.Context, m handlertest.Message) (any, error) {
//			return charge(ctx, engine, m.Key) // calls core.Do, and returns its result
//		})
//	},
//
// These end the deliveries: a result, a permanent error (failure.IsPermanent), and a
// *core.RefusedError whose Problem has no RetryAfter, such as ErrOutcomeUnknown, for which a
// consumer sets the message aside. After any other error the message is delivered again. The
// result must be the one of core.Do, encoded as JSON. The Path of the Request only names the queue.
func Consumer(consume func(ctx context.Context, message Message) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		body, _ := io.ReadAll(r.Body) // of the kit, in memory
		result, err := consume(ctx, Message{Key: idempotencyKey, Body: body})
		if err == nil {
			var encoded []byte
			if encoded, err = json.Marshal(result); err == nil {
				_, _ = w.Write(encoded) // to the kit's recorder
				return
			}
		}
		status, text := http.StatusServiceUnavailable, err.Error()
		refused, isRefused := errors.AsType[*core.RefusedError](err)
		if failure.IsPermanent(err) || isRefused && refused.Problem.RetryAfter == 0 {
			status = http.StatusConflict // without a Retry-After: the client stops
			if a, _ := ctx.Value(attemptKey{}).(*attempt); a != nil {
				if kept := a.process.world.lookup(); kept != nil && kept.State == storage.Failed {
					status, text = kept.Status, string(kept.Body)
				}
			}
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) //nolint:gosec // to the kit's recorder
	})
}
