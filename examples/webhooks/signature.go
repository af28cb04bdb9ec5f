package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

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
