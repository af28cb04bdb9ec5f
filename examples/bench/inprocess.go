package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/peers"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

var errNoReplay = errors.New("the second response is not a replay")

const (
	processComparison = "One call of the handler after another"
	bareArm           = "net/http: bare"
	floorArm          = "floor: two SHA-256 sums and json.Valid"
	outerSuffix       = ", outer headers"
	bareOuterArm      = "net/http" + outerSuffix + ": bare"
)

// inProcess measures requests as function calls.
func inProcess(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{
		Title: "In process, in memory",
		Text:  []string{"Each arm's ratio is to its own bare handler. *Outer headers*: middleware outside of the guard sets twelve."},
		Notes: []string{
			"*floor* is not a handler. It hashes a record's names and the payload, and it validates the payload. Any guard " +
				"with such keys and a canonical fingerprint does this work; fiber's has neither and does not.",
			"The parts of *first*, in floors: `go test ./core -run '^$' -bench BenchmarkPartsOfAFirst`.",
		},
	}
	arms, err := inProcessArms(ctx)
	if err != nil {
		return section, err
	}
	err = s.compare(ctx, &section, comparison{
		processComparison, s.plan(1), arms,
		[]column{timeColumn, bytesColumn, allocsColumn, timesColumn("x bare", bareOf)},
	})
	return section, err
}

// bareOf is the bare arm of the same server and middleware. A floor is its own bare arm.
func bareOf(arm string) string {
	guard, _, _ := strings.Cut(arm, ": ")
	switch {
	case guard == "floor":
		return arm
	case strings.HasPrefix(guard, "fiber"):
		return guard + ": bare"
	case strings.HasSuffix(guard, outerSuffix):
		return bareOuterArm
	default:
		return bareArm
	}
}

func inProcessArms(ctx context.Context) (arms []harness.Arm, err error) {
	for _, service := range inProcessServices() {
		arm, err := alone(ctx, service)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", service.name, err)
		}
		arms = append(arms, arm)
	}
	// The floor is the minimum for a guard with our keys and fingerprints: two hashes, and one
	// pass over the payload.
	names := []byte("Bearer alice" + http.MethodPost + "/payments" + newKey())
	arms = append(arms, harness.Arm{Name: floorArm, Run: func(n int) error {
		for range n {
			sha256.Sum256(names)
			sha256.Sum256(payload)
			json.Valid(payload)
		}
		return nil
	}})
	return append(arms, fiberArms()...), nil
}

// inProcessServices are the guards and the bare handler, some inside of the middleware outer too.
func inProcessServices() []service {
	tutorial := func(fingerprint bool) maker {
		return func(context.Context) (http.Handler, error) {
			return peers.Tutorial{Backend: peers.NewMap(), Fingerprint: fingerprint}.Handler(http.HandlerFunc(pay)), nil
		}
	}
	inside := func(inner maker) maker {
		return func(ctx context.Context) (http.Handler, error) {
			handler, err := inner(ctx)
			return outer(handler), err
		}
	}
	guard := func(name string, fresh maker) []service { return both(name, fresh, fresh) }
	return slices.Concat(
		[]service{{name: bareArm, fresh: bareService.fresh, replay: true}},
		guard("net/http", oursInMemory), guard("tutorial", tutorial(false)), guard("tutorial with fingerprint", tutorial(true)),
		[]service{{name: bareOuterArm, fresh: inside(bareService.fresh), replay: true}},
		guard("net/http"+outerSuffix, inside(oursInMemory)), guard("tutorial with fingerprint"+outerSuffix, inside(tutorial(true))),
	)
}

// alone makes an arm that calls the service's handler, one request after another.
func alone(ctx context.Context, v service) (harness.Arm, error) {
	var e *exchange
	var keys []string
	renew := func(n int) error {
		keys = newKeys(n)
		handler, err := v.fresh(ctx)
		if err == nil {
			e, err = newExchange(ctx, handler)
		}
		return err
	}
	arm := harness.Arm{Name: v.name, Run: func(n int) error {
		for i := range n {
			if err := e.send(keys[i%len(keys)]); err != nil {
				return err
			}
		}
		return nil
	}}
	if !v.replay {
		arm.Most, arm.Prepare = 1<<17, renew
		return arm, nil
	}
	err := renew(1)
	if err == nil {
		err = arm.Run(2)
	}
	if err == nil && strings.HasSuffix(v.name, ": replay") && !e.replayed() {
		err = errNoReplay
	}
	return arm, err
}

// outer is the middleware outside of a guard in a real service: a request's identifiers, the
// headers of security middleware, and those of CORS. It sets twelve headers.
func outer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Request-Id", strconv.FormatUint(sequence.Add(1), 16))
		h.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		h.Set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'")
		h.Set("Permissions-Policy", "geolocation=()")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Access-Control-Allow-Origin", "https://shop.example")
		h.Set("Vary", "Origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

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
