package tiered

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// cell is one test: the first attempt ends in one way at one point.
type cell struct {
	t       *testing.T
	store   storage.Store
	lockTTL time.Duration
	name    string
	point   point
	death   death
	mode    string

	began     atomic.Bool // by the first attempt
	effects   [4]atomic.Int64
	recovered atomic.Pointer[string] // the step that the RecoverFunc was told
}

// pod is one process: an engine, and its way to the store.
type pod struct {
	engine *core.Engine
	link   *testkit.Faulty
	guard  http.Handler
	key    string
}

func (c *cell) newPod(ends bool) *pod {
	p := &pod{link: &testkit.Faulty{Store: c.store}, key: strings.ReplaceAll(c.name, " ", "_")}
	engine, err := core.New(p.link, core.SharedScope, core.WithObserver(unseen{}))
	if err != nil {
		c.t.Error(err)
		return nil
	}
	p.engine = engine
	p.guard = engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusCreated
		if err := c.handle(r.Context(), p, ends); err != nil {
			status = http.StatusServiceUnavailable
		}
		w.WriteHeader(status)
	}), policy.LockTTL(c.lockTTL), policy.MaxRun(c.lockTTL), policy.StoreTimeout(c.lockTTL/2), c.onAbandoned())
	return p
}

// send returns the code of the problem, or the status.
func (p *pod) send(payload string) string {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/orders", strings.NewReader(payload))
	r.Header.Set(core.KeyHeader, `"`+p.key+`"`)
	w := httptest.NewRecorder()
	p.guard.ServeHTTP(w, r)
	for _, code := range problem.Codes() {
		if strings.Contains(w.Body.String(), `"code":"`+code+`"`) {
			return code
		}
	}
	return w.Result().Status
}

func (p *pod) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.engine.Shutdown(ctx) // a killed pod has work that never ends
}

func (c *cell) onAbandoned() policy.Option {
	switch c.mode {
	case "Refuse":
		return policy.OnAbandoned(policy.Refuse)
	case "Recover":
		return policy.OnAbandoned(policy.Recover(c.recover))
	default:
		return policy.OnAbandoned(policy.Reexecute)
	}
}

// recover stands for a look-up at the provider of the step: it finds the effect. Between
// two steps there is no effect to look for.
func (c *cell) recover(_ context.Context, a policy.Abandoned) (*policy.Response, error) {
	c.recovered.Store(&a.Step)
	if a.Step == "" {
		return nil, nil //nolint:nilnil // no effect outside of the steps
	}
	return &policy.Response{Status: http.StatusCreated, Body: []byte("0")}, nil
}

var errFailed = errors.New("the attempt has failed")

// handle is the handler.
func (c *cell) handle(ctx context.Context, p *pod, ends bool) error {
	if ends {
		c.began.Store(true)
	}
	for i, name := range steps {
		if ends && c.point == (point{i, false}) {
			return c.end(ctx, p)
		}
		got, err := core.Step(ctx, name, func(ctx context.Context) (int, error) {
			if ends && c.point == (point{i, true}) {
				if c.death != failed {
					c.effects[i].Add(1)
				}
				if err := c.end(ctx, p); c.death != killed {
					return 0, err
				}
				return i, nil
			}
			c.effects[i].Add(1)
			return i, nil
		})
		if err != nil {
			return err
		}
		if got != i {
			c.t.Errorf("%s: step %s returned %d, want %d", c.name, name, got, i)
		}
	}
	if ends {
		return c.end(ctx, p)
	}
	return nil
}

// end ends the first attempt.
func (c *cell) end(ctx context.Context, p *pod) error {
	switch c.death {
	case killed:
		p.link.Fail(errCut, testkit.Acquire, testkit.Extend, testkit.Complete, testkit.Release)
	case timeout:
		<-ctx.Done()
		return context.Cause(ctx)
	case failed:
	}
	return errFailed
}

// run runs the test.
func (c *cell) run() {
	first, second := c.newPod(true), c.newPod(false)
	if first == nil || second == nil {
		return
	}
	defer second.close()
	for first.send("payload"); !c.began.Load(); first.send("payload") { // the store was too slow, on a busy machine
		c.pause()
	}
	first.close()
	if recorded := c.point.step > 0; recorded || c.isUncertain() {
		if got := c.insist(second, "another payload", problem.StoreUnavailable); got != problem.KeyReused {
			c.t.Errorf("%s: another payload got %s", c.name, got)
		}
	}
	got := c.insist(second, "payload", problem.StoreUnavailable, problem.InProgress)
	seen := verdict{reply: got, told: untold}
	for i := range seen.effects {
		seen.effects[i] = c.effects[i].Load()
	}
	if told := c.recovered.Load(); told != nil {
		seen.told = *told
	}
	if want := c.expected(); seen != want {
		c.t.Errorf("%s: %+v, want %+v", c.name, seen, want)
	}
}

// insist repeats a request as long as it gets one of these replies.
func (c *cell) insist(p *pod, payload string, while ...string) (got string) {
	for got = p.send(payload); slices.Contains(while, got); got = p.send(payload) {
		c.pause()
	}
	return got
}

func (c *cell) pause() {
	time.Sleep(c.lockTTL / 30) //nolint:forbidigo // polls until the lease of a killed pod has ended
}

// isUncertain reports whether the outcome of the first attempt is unknown.
func (c *cell) isUncertain() bool {
	switch c.death {
	case killed:
		return true
	case timeout:
		return c.point.inside || c.mode != "Reexecute"
	default: // a 503 releases its key under Reexecute
		return c.mode != "Reexecute"
	}
}

const (
	created = "201 Created"
	untold  = "the RecoverFunc was not called"
)

// verdict is the result of a test.
type verdict struct {
	reply   string
	effects [4]int64
	told    string // the step that the RecoverFunc was told
}

// expected returns the verdict that the documentation promises.
func (c *cell) expected() verdict {
	isCut := c.point.inside && c.death != failed
	complete, soFar := [4]int64{1, 1, 1, 1}, [4]int64{}
	for i := range c.point.step {
		soFar[i] = 1
	}
	if isCut {
		soFar[c.point.step] = 1
	}
	switch {
	case !c.isUncertain():
		return verdict{created, complete, untold}
	case c.mode == "Refuse":
		return verdict{problem.OutcomeUnknown, soFar, untold}
	case c.mode == "Recover" && isCut:
		return verdict{created, soFar, steps[c.point.step]}
	case c.mode == "Recover":
		return verdict{created, complete, ""}
	case isCut: // its outcome is unknown, and the policy repeats it
		complete[c.point.step] = 2
	}
	return verdict{created, complete, untold}
}

var errCut = errors.New("no route to host")

type unseen struct{}

func (unseen) Observe(context.Context, event.Event) {}
