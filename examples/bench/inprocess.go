package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/peers"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

var errNoReplay = errors.New("the second response is not a replay")

// inProcess measures requests as function calls.
func inProcess(ctx context.Context, s *suite) (report.Section, error) {
	arms, end, err := inProcessArms(ctx)
	defer end()
	if err != nil {
		return report.Section{}, err
	}
	c, err := harness.Compare(ctx, s.plan(1), arms)
	if err != nil {
		return report.Section{}, err
	}
	s.summary.inProcess(c)
	table := report.Table{Head: []string{"arm", "time", "bytes", "allocations", "x bare"}}
	for _, arm := range arms {
		cost := c.Median(arm.Name)
		row := []string{arm.Name, report.Duration(cost.Time), report.Number(math.Round(cost.Bytes)), report.Number(math.Floor(cost.Allocs)), ""}
		if bare := bareOf(arm.Name); bare != arm.Name {
			row[4] = report.Interval(c.Ratio(arm.Name, bare))
		}
		table.Rows = append(table.Rows, row)
	}
	return report.Section{
		Title: "In process, in memory",
		Text: []string{
			"One call of the handler after another; each arm's ratio is to its own router's bare handler. A/A control: " +
				report.Interval(c.Control()) + ".",
		},
		Tables:  []report.Table{table},
		Targets: inProcessTargets(c),
		Notes: []string{
			"*floor* is not a handler. It hashes a record's names and the payload, and it validates the payload. Any guard " +
				"with such keys and a canonical fingerprint does this work; fiber's has neither and does not. Compare the targets' times with *floor*.",
			"An overhead is the time over the arm's own bare handler. Allocations are the guard's own, above the bare handler's.",
			"The cost of oncekey's capture is part of *first*. It is measured against httpsnoop's apart, from within the package: " +
				"`go test ./core -run '^$' -bench BenchmarkCapture`.",
		},
	}, nil
}

// bareOf is the bare arm of the same router. A floor is its own bare arm.
func bareOf(arm string) string {
	router, _, _ := strings.Cut(arm, ": ")
	switch {
	case router == "floor":
		return arm
	case strings.HasPrefix(router, "tutorial"), strings.HasPrefix(router, "net/http"):
		router = "net/http"
	}
	return router + ": bare"
}

func inProcessTargets(c *harness.Comparison) []report.Target {
	const bare = "net/http: bare"
	var targets []report.Target
	for _, kind := range []string{"first", "replay"} {
		ours := "net/http: " + kind
		for _, peer := range []string{"fiber v2", "fiber v3"} {
			targets = append(targets, report.AtMost(fmt.Sprintf("overhead of %s : that of %s", kind, peer), 0.85,
				c.Overhead(ours, bare, peer+": "+kind, peer+": bare")))
		}
		factor := map[string]float64{"first": 5, "replay": 10}[kind]
		targets = append(targets, report.AtLeast("overhead of the tutorial with fingerprint : that of "+kind, factor,
			c.Overhead("tutorial with fingerprint: "+kind, bare, ours, bare)))
	}
	base := math.Floor(c.Median(bare).Allocs)
	return append(targets,
		report.CountAtMost("allocations, first", 6, math.Floor(c.Median("net/http: first").Allocs)-base),
		report.CountAtMost("allocations, replay", 4, math.Floor(c.Median("net/http: replay").Allocs)-base))
}

// inProcessArms makes the arms. The function end releases the handlers that hold a key.
func inProcessArms(ctx context.Context) (arms []harness.Arm, end func(), err error) {
	var held []chan struct{}
	end = func() {
		for _, release := range held {
			close(release)
		}
	}
	for _, guard := range guards() {
		if guard.bare != nil {
			bare, err := steadyArm(ctx, guard.name+": bare", guard.bare, "k", http.StatusCreated)
			if err != nil {
				return nil, end, err
			}
			arms = append(arms, bare)
		}
		handler, err := guard.fresh(pay)
		if err != nil {
			return nil, end, err
		}
		key := newKey()
		replay, err := replayArm(ctx, guard.name+": replay", handler, key)
		if err != nil {
			return nil, end, err
		}
		release := make(chan struct{})
		conflict, err := conflictArm(ctx, guard, release)
		held = append(held, release)
		if err != nil {
			return nil, end, err
		}
		arms = append(arms, firstArm(ctx, guard), replay, conflict)
	}
	arms = append(arms, floors()...)
	arms = append(arms, fiberArms("fiber v2", peers.Fiber2)...)
	return append(arms, fiberArms("fiber v3", peers.Fiber3)...), end, nil
}

// floors are the minimum for a guard with our keys and fingerprints: two hashes, and one
// pass over the payload.
func floors() []harness.Arm {
	names := []byte("Bearer alice" + http.MethodPost + "/payments" + newKey())
	sums := func() {
		sha256.Sum256(names)
		sha256.Sum256(payload)
	}
	return []harness.Arm{
		{Name: "floor: two SHA-256 sums", Run: repeat(func() error { sums(); return nil })},
		{Name: "floor: two SHA-256 sums and json.Valid", Run: repeat(func() error { sums(); json.Valid(payload); return nil })},
	}
}

// guard is a way to guard a handler. Each new guard has an empty store.
type guard struct {
	name  string
	bare  http.Handler // nil: the bare handler of net/http
	fresh func(http.HandlerFunc) (http.Handler, error)
}

func guards() []guard {
	var all []guard
	for _, router := range routers {
		all = append(all, guard{router.name, router.bare(pay), func(handler http.HandlerFunc) (http.Handler, error) {
			engine, err := newEngine(newMemory())
			if err != nil {
				return nil, err
			}
			return router.guarded(engine, handler), nil
		}})
	}
	return append(all, sealed(), tutorial("tutorial", false), tutorial("tutorial with fingerprint", true))
}

func tutorial(name string, fingerprint bool) guard {
	return guard{name, nil, func(handler http.HandlerFunc) (http.Handler, error) {
		return peers.Tutorial(peers.NewMap(), handler, fingerprint), nil
	}}
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

// steadyArm sends the same request again and again.
func steadyArm(ctx context.Context, name string, handler http.Handler, key string, status int) (harness.Arm, error) {
	e, err := newExchange(ctx, handler)
	return harness.Arm{Name: name, Run: repeat(func() error { return e.send(key, status) })}, err
}

func replayArm(ctx context.Context, name string, handler http.Handler, key string) (harness.Arm, error) {
	e, err := newExchange(ctx, handler)
	if err != nil {
		return harness.Arm{}, err
	}
	for range 2 {
		if err := e.send(key, http.StatusCreated); err != nil {
			return harness.Arm{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	if !e.replayed() {
		return harness.Arm{}, fmt.Errorf("%s: %w", name, errNoReplay)
	}
	return steadyArm(ctx, name, handler, key, http.StatusCreated)
}

// conflictArm has a handler that holds its key until the channel release is closed.
func conflictArm(ctx context.Context, guard guard, release <-chan struct{}) (harness.Arm, error) {
	entered := make(chan struct{})
	handler, err := guard.fresh(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		pay(w, r)
	})
	if err != nil {
		return harness.Arm{}, err
	}
	holder, err := newExchange(ctx, handler)
	if err != nil {
		return harness.Arm{}, err
	}
	key := newKey()
	go func() { _ = holder.send(key, http.StatusCreated) }() // until release is closed
	<-entered
	return steadyArm(ctx, guard.name+": conflict", handler, key, http.StatusConflict)
}

// firstArm has an empty store for each slice.
func firstArm(ctx context.Context, guard guard) harness.Arm {
	var e *exchange
	var keys []string
	return harness.Arm{
		Name: guard.name + ": first", Most: 1 << 17,
		Prepare: func(n int) error {
			keys = newKeys(n)
			handler, err := guard.fresh(pay)
			if err != nil {
				return err
			}
			e, err = newExchange(ctx, handler)
			return err
		},
		Run: func(n int) error {
			for i := range n {
				if err := e.send(keys[i], http.StatusCreated); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// fiberArms are the arms of one version of fiber.
func fiberArms(name string, app func(*peers.Storage, []byte) fasthttp.RequestHandler) []harness.Arm {
	storage := peers.NewStorage()
	bare, guarded, replayed := app(nil, answer), app(storage, answer), app(peers.NewStorage(), answer)
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
