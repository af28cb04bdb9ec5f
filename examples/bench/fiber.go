package main

import (
	"fmt"
	"net/http"

	"github.com/valyala/fasthttp"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/peers"
)

// fiberArms are the arms of fiber's middleware.
func fiberArms() []harness.Arm {
	const name = "fiber v3"
	storage := peers.NewStorage()
	bare, guarded, replayed := peers.Fiber(nil, response), peers.Fiber(storage, response), peers.Fiber(peers.NewStorage(), response)
	key := newKey()
	steady := func(handler fasthttp.RequestHandler) func(int) error {
		return func(n int) error { return sendFiber(handler, n, func(int) string { return key }) }
	}
	var keys []string
	return []harness.Arm{
		{Name: name + ": bare", Run: steady(bare)},
		{
			Name: name + ": first", Most: 1 << 17,
			Prepare: func(n int) error { keys = newKeys(n); return storage.Reset() },
			Run:     func(n int) error { return sendFiber(guarded, n, func(i int) string { return keys[i] }) },
		},
		{Name: name + ": replay", Run: steady(replayed)},
	}
}

// sendFiber calls the application in one context, like fiber's own server.
func sendFiber(handler fasthttp.RequestHandler, n int, key func(i int) string) error {
	var c fasthttp.RequestCtx
	c.Init(&fasthttp.Request{}, nil, nil)
	c.Request.Header.SetMethod(http.MethodPost)
	c.Request.SetRequestURI("/payments")
	c.Request.Header.SetContentType("application/json")
	c.Request.Header.Set("Authorization", "Bearer alice")
	c.Request.SetBody(payload)
	for i := range n {
		c.Response.Reset()
		c.ResetUserValues()
		c.Request.Header.Set("Idempotency-Key", key(i))
		handler(&c)
		if status := c.Response.StatusCode(); status != http.StatusCreated {
			return fmt.Errorf("response with status %d, want %d", status, http.StatusCreated)
		}
	}
	return nil
}
