package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

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
		Text:  []string{"Each arm's ratio is to its own router's bare handler. *Outer headers*: middleware outside of the guard sets twelve."},
		Notes: []string{
			"*floor* is not a handler. It hashes a record's names and the payload, and it validates the payload. Any guard " +
				"with such keys and a canonical fingerprint does this work; fiber's has neither and does not.",
			"The cost of oncekey's capture is part of *first*. It is measured against httpsnoop's apart, from within the package: " +
				"`go test ./core -run '^$' -bench BenchmarkCapture`. The other parts of *first*, in floors: the same with BenchmarkPartsOfAFirst.",
		},
	}
	arms, end, err := inProcessArms(ctx)
	defer end()
	if err != nil {
		return section, err
	}
	err = s.compare(ctx, &section, comparison{
		processComparison, s.plan(1), arms,
		[]column{timeColumn, bytesColumn, allocsColumn, timesColumn("x bare", bareOf)},
	})
	return section, err
}

// bareOf is the bare arm of the same router and middleware. A floor is its own bare arm.
func bareOf(arm string) string {
	guard, _, _ := strings.Cut(arm, ": ")
	router, middleware, _ := strings.Cut(guard, ", ")
	switch {
	case router == "floor":
		return arm
	case strings.HasPrefix(router, "tutorial"):
		router = "net/http"
	}
	if ", "+middleware == outerSuffix {
		router += outerSuffix
	}
	return router + ": bare"
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
		{Name: floorArm, Run: repeat(func() error { sums(); json.Valid(payload); return nil })},
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
	fingerprinting := tutorial("tutorial with fingerprint", true)
	return append(all, sealed(), tutorial("tutorial", false), fingerprinting, withOuter(all[0]), withOuter(fingerprinting))
}

// withOuter is a guard inside of the middleware outer.
func withOuter(inner guard) guard {
	around := guard{name: inner.name + outerSuffix, fresh: func(handler http.HandlerFunc) (http.Handler, error) {
		guarded, err := inner.fresh(handler)
		return outer(guarded), err
	}}
	if inner.bare != nil {
		around.bare = outer(inner.bare)
	}
	return around
}

func tutorial(name string, fingerprint bool) guard {
	return guard{name, nil, func(handler http.HandlerFunc) (http.Handler, error) {
		return peers.Tutorial{Backend: peers.NewMap(), Fingerprint: fingerprint}.Handler(handler), nil
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
