package handlertest_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/handlertest"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// order is the work of one run: four steps, whose effects are not idempotent.
type order struct {
	world *handlertest.World
	mu    sync.Mutex
	done  [4]int // how often each effect has happened
}

var stepNames = []string{"reserve", "charge", "ship", "mail"}

// ship does the steps, and returns the first error.
func (o *order) ship(ctx context.Context) (string, error) {
	for i, name := range stepNames {
		got, err := core.Step(ctx, name, func(ctx context.Context) (int, error) {
			return i, failure.Uncertain(o.world.Call(ctx, name, func(context.Context) error {
				o.mu.Lock()
				defer o.mu.Unlock()
				o.done[i]++
				return nil
			}))
		})
		if err != nil {
			return "", err
		}
		testkit.Equal(o.world, got, i, "the result of step %s", name)
	}
	return "shipped", nil
}

func (o *order) handle(w http.ResponseWriter, r *http.Request) {
	if _, err := o.ship(r.Context()); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

func (o *order) effects() (sum int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.done {
		sum += n
	}
	return sum
}

// find stands for a look-up at the provider of the step that was cut off. Between two steps there is no effect to look for.
func (o *order) find(_ context.Context, a policy.Abandoned) (*policy.Response, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	step := slices.Index(stepNames, a.Step)
	if step < 0 || o.done[step] == 0 {
		return nil, nil //nolint:nilnil // a RecoverFunc that found no effect
	}
	for i, n := range o.done {
		if n > 1 || i < step && n == 0 || i > step && n > 0 {
			o.world.Errorf("the RecoverFunc was told of %s, and the effects are %v", a.Step, o.done)
		}
	}
	return &policy.Response{Status: http.StatusOK, Body: []byte(`"recovered"`)}, nil
}

// A handler of four steps fails at every point, in every way, on every router and in core.Do. No step is repeated whose
// outcome was recorded, and only Reexecute repeats one whose outcome is unknown.
func TestStepMatrix(t *testing.T) {
	t.Parallel()
	for name, routes := range map[string]routesOf{"net/http": nethttp, "chi": onChi, "gin": onGin, "core.Do": nil} {
		for _, mode := range []string{"Reexecute", "Refuse", "Recover"} {
			t.Run(name+", "+mode, func(t *testing.T) {
				t.Parallel()
				report := handlertest.Examine(t, func(w *handlertest.World) handlertest.Service {
					o := &order{world: w}
					w.Cleanup(func() { o.wantOnce(mode) })
					onAbandoned := map[string]policy.Option{
						"Reexecute": policy.OnAbandoned(policy.Reexecute), "Refuse": policy.OnAbandoned(policy.Refuse),
						"Recover": policy.OnAbandoned(policy.Recover(o.find)),
					}[mode]
					return handlertest.Service{
						Routes: func(engine *core.Engine) http.Handler {
							if routes != nil {
								return routes(engine, o.handle, onAbandoned)
							}
							route := engine.MustRoute(onAbandoned)
							return handlertest.Consumer(func(ctx context.Context, m handlertest.Message) (any, error) {
								result, _, err := core.Do(ctx, engine, core.Call{Scope: "orders", Name: "order", Key: m.Key, Route: route}, o.ship)
								return result, err
							})
						},
						Request: handlertest.Request{Path: "/payments"},
						Effects: o.effects,
					}
				})
				wantSteps(t, report, mode)
			})
		}
	}
}

// wantOnce wants each effect at most once, or one of them twice where the policy repeats it.
func (o *order) wantOnce(mode string) {
	repeated := 0
	for _, n := range o.done {
		repeated += max(0, n-1)
	}
	if repeated > 1 || repeated > 0 && mode != "Reexecute" {
		o.world.Errorf("%s: the effects of %v are %v", mode, stepNames, o.done)
	}
}

// wantSteps wants all effects, unless Refuse or the RecoverFunc ends the retries of a step that was cut off.
func wantSteps(t *testing.T, report *handlertest.Report, mode string) {
	t.Helper()
	for _, row := range report.Rows() {
		last := row.Responses[len(row.Responses)-1]
		ended := mode == "Refuse" && strings.HasSuffix(last, "outcome_unknown") ||
			mode == "Recover" && strings.HasSuffix(last, "replay") && slices.Equal(row.Wrong, []string{"lost effect: " + row.Told})
		if row.Effects < len(stepNames) && !ended || mode == "Recover" && row.Told == "no final response" {
			t.Errorf("%+v, in\n%s", row, report)
		}
	}
}
