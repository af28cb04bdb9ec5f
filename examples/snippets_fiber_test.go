package examples_test

import (
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	recoverer "github.com/gofiber/fiber/v3/middleware/recover"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

func TestOnFiber(t *testing.T) {
	t.Parallel()
	engine, app, runs := newEngine(t), fiber.New(), 0
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
	app.Post("/payments", adaptor.HTTPHandler(engine.Handler(http.HandlerFunc(pay), policy.TTLHours(48))))

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
	if runs != 4 {
		t.Errorf("%d handlers ran, want 4", runs)
	}
}
