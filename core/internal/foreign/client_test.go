package foreign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// client is a running program, its client, and the faults that a check has found.
type client struct {
	program
	*app
	handler http.Handler
	store   storage.Store
	effects atomic.Int64
	faults  []error
}

// start runs the program over an operation, which start counts.
func (p program) start(t *testing.T, pay func(context.Context) error, opts ...policy.Option) *client {
	t.Helper()
	c := &client{program: p, app: &app{T: t, policy: opts}}
	c.store = memstore.New()
	if p.store != nil {
		c.store = p.store(t, c.app)
	}
	engine, err := core.New(c.store, core.SharedScope, core.WithObserver(silent{}))
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Abort(engine) }) // background work ends with the test
	c.engine = engine
	c.pay = func(ctx context.Context, amount int64) (int64, error) {
		id := c.effects.Add(1)
		if key := core.KeyFrom(ctx); key != "k" && !p.remote {
			return 0, fmt.Errorf("the handler's context has the key %q", key)
		}
		return id, pay(ctx)
	}
	c.handler = p.mount(c.app)
	return c
}

type silent struct{}

func (silent) Observe(context.Context, event.Event) {}

// response is a response as the client sees it. lost: the connection ended before it.
type response struct {
	status int
	body   string
	code   string
	replay bool
	lost   bool
}

func (r response) String() string {
	if r.lost {
		return "no response"
	}
	return fmt.Sprintf("%d %s (replay: %v)", r.status, strings.TrimSpace(r.body), r.replay)
}

func (c *client) send(amount int) (got response) {
	w := httptest.NewRecorder()
	defer func() {
		if value := recover(); value != nil { // net/http then closes the connection
			got = response{lost: true}
		}
	}()
	c.handler.ServeHTTP(w, testkit.Post(c.Context(), c.pathOf(), "k", c.bodyOf(amount)))
	got = response{status: w.Code, body: w.Body.String(), replay: w.Header().Get(c.engine.ReplayHeader()) != ""}
	if w.Header().Get("Content-Type") == "application/problem+json" {
		var refusal problem.Problem
		_ = json.Unmarshal(w.Body.Bytes(), &refusal)
		got.code = refusal.Code
	}
	return got
}

// want notes a fault of the program.
func (c *client) want(is bool, format string, args ...any) {
	if !is {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

// wantSent sends a request and compares the response.
func (c *client) wantSent(amount, status int, replay bool) response {
	got := c.send(amount)
	c.want(got.status == status && got.replay == replay, "got %s, want %d (replay: %v)", got, status, replay)
	return got
}

func (c *client) wantEffects(n int64) {
	got := c.effects.Load()
	c.want(got == n, "%d effects, want %d", got, n)
}

func (c *client) fault() error { return errors.Join(c.faults...) }
