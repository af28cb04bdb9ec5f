package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
		return "net/http" + outerSuffix + ": bare"
	default:
		return bareArm
	}
}

func inProcessArms(ctx context.Context) (arms []harness.Arm, err error) {
	for _, guard := range guards() {
		if guard.bare != nil {
			e, err := newExchange(ctx, guard.bare)
			if err != nil {
				return nil, err
			}
			arms = append(arms, harness.Arm{Name: guard.name + ": bare", Run: repeat(func() error { return e.send("k") })})
		}
		replay, err := replayArm(ctx, guard)
		if err != nil {
			return nil, err
		}
		arms = append(arms, firstArm(ctx, guard), replay)
	}
	// The floor is the minimum for a guard with our keys and fingerprints: two hashes, and one
	// pass over the payload.
	names := []byte("Bearer alice" + http.MethodPost + "/payments" + newKey())
	arms = append(arms, harness.Arm{Name: floorArm, Run: repeat(func() error {
		sha256.Sum256(names)
		sha256.Sum256(payload)
		json.Valid(payload)
		return nil
	})})
	return append(arms, fiberArms()...), nil
}

// guard is a way to guard a handler. Each new guard has an empty store.
type guard struct {
	name  string
	bare  http.Handler // nil: another guard has the same
	fresh maker
}

func guards() []guard {
	tutorial := func(fingerprint bool) maker {
		return func(context.Context) (http.Handler, error) {
			return peers.Tutorial{Backend: peers.NewMap(), Fingerprint: fingerprint}.Handler(http.HandlerFunc(pay)), nil
		}
	}
	ours := guard{"net/http", http.HandlerFunc(pay), oursInMemory}
	fingerprinting := guard{"tutorial with fingerprint", nil, tutorial(true)}
	return []guard{ours, {"tutorial", nil, tutorial(false)}, fingerprinting, withOuter(ours), withOuter(fingerprinting)}
}

// withOuter is a guard inside of the middleware outer.
func withOuter(inner guard) guard {
	around := guard{name: inner.name + outerSuffix, fresh: func(ctx context.Context) (http.Handler, error) {
		guarded, err := inner.fresh(ctx)
		return outer(guarded), err
	}}
	if inner.bare != nil {
		around.bare = outer(inner.bare)
	}
	return around
}

// repeat is an arm's Run that repeats one call.
func repeat(do func() error) func(n int) error {
	return func(n int) error {
		for range n {
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	}
}

func replayArm(ctx context.Context, guard guard) (harness.Arm, error) {
	name, key := guard.name+": replay", newKey()
	handler, err := guard.fresh(ctx)
	if err != nil {
		return harness.Arm{}, err
	}
	e, err := newExchange(ctx, handler)
	if err != nil {
		return harness.Arm{}, err
	}
	for range 2 {
		if err := e.send(key); err != nil {
			return harness.Arm{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	if !e.replayed() {
		return harness.Arm{}, fmt.Errorf("%s: %w", name, errNoReplay)
	}
	return harness.Arm{Name: name, Run: repeat(func() error { return e.send(key) })}, nil
}

// firstArm has an empty store for each slice.
func firstArm(ctx context.Context, guard guard) harness.Arm {
	var e *exchange
	var keys []string
	return harness.Arm{
		Name: guard.name + ": first", Most: 1 << 17,
		Prepare: func(n int) error {
			keys = newKeys(n)
			handler, err := guard.fresh(ctx)
			if err != nil {
				return err
			}
			e, err = newExchange(ctx, handler)
			return err
		},
		Run: func(n int) error {
			for i := range n {
				if err := e.send(keys[i]); err != nil {
					return err
				}
			}
			return nil
		},
	}
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
