// Package stepmatrix ends a handler of four steps at every point, in every way, under
// every OnAbandoned, over net/http, chi, gin and core.Do, and sends its request again
// to another engine. No step may be repeated whose outcome was recorded.
//
//	func TestSteps(t *testing.T) { stepmatrix.Run(t, memstore.New(), 3*time.Second) }
package stepmatrix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// steps are the names of the handler's steps, in order.
var steps = []string{"reserve", "charge", "ship", "mail"}

// death is the way in which the first attempt ends.
type death string

const (
	killed  death = "killed"    // the process: no call reaches the store any more
	timeout death = "timed out" // the context ends, and the handler returns its error
	failed  death = "failed"    // the handler returns an error, or a 503
)

var deaths = []death{killed, timeout, failed}

// The values of OnAbandoned.
var modes = []string{"Reexecute", "Refuse", "Recover"}

// point is a place of the handler: inside a step, or before it. The place before the
// step after the last one is the end of the handler.
type point struct {
	step   int
	inside bool
}

func (p point) String() string {
	switch {
	case p.inside:
		return "in " + steps[p.step]
	case p.step == len(steps):
		return "at the end"
	default:
		return "before " + steps[p.step]
	}
}

func points() (all []point) {
	for i := range steps {
		all = append(all, point{i, false}, point{i, true})
	}
	return append(all, point{len(steps), false})
}

// Run fills one table for each router, over one store. lockTTL is the policy's LockTTL and
// MaxRun. It must be long enough for 81 handlers at once to reach their last step on a
// busy machine. Run takes about lockTTL for each router on a real clock, and no time in a
// testing/synctest bubble.
func Run(t *testing.T, store storage.Store, lockTTL time.Duration) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(routers)) {
		mount := routers[name]
		var group sync.WaitGroup
		cells := map[string]*cell{}
		for _, p := range points() {
			for _, d := range deaths {
				for _, m := range modes {
					c := &cell{t: t, store: store, lockTTL: lockTTL, name: fmt.Sprintf("%s, %s %s, %s", name, d, p, m), mount: mount, isCall: name == doName, point: p, death: d, mode: m}
					cells[id(p, d, m)] = c
					group.Go(c.run)
				}
			}
		}
		group.Wait()
		t.Log(table(name, cells))
	}
}

func id(p point, d death, mode string) string { return fmt.Sprint(p, d, mode) }

// table prints the effects of the four steps, and the response of the second attempt.
func table(name string, cells map[string]*cell) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: how often each step ran, and the retry's response\n%-14s", name, "")
	for _, d := range deaths {
		for _, m := range modes {
			fmt.Fprintf(&text, " %-20s", string(d)+", "+m)
		}
	}
	for _, p := range points() {
		fmt.Fprintf(&text, "\n%-14s", p)
		for _, d := range deaths {
			for _, m := range modes {
				fmt.Fprintf(&text, " %-20s", cells[id(p, d, m)].shown)
			}
		}
	}
	return text.String()
}

// cell is one test: the first attempt ends in one way at one point.
type cell struct {
	t       *testing.T
	store   storage.Store
	lockTTL time.Duration
	name    string
	mount   router
	isCall  bool // of core.Do
	point   point
	death   death
	mode    string

	began     atomic.Bool // by the first attempt
	effects   [4]atomic.Int64
	recovered atomic.Pointer[string] // the step that the RecoverFunc was told
	shown     string
}

// pod is one process: an engine, and its way to the store.
type pod struct {
	engine *core.Engine
	link   *link
	send   func(payload string) reply
}

func (c *cell) newPod(ends bool) *pod {
	p := &pod{link: &link{Store: c.store}}
	engine, err := core.New(p.link, core.SharedScope, core.WithObserver(silent{}))
	if err != nil {
		c.t.Error(err)
		return nil
	}
	p.engine = engine
	opts := []policy.Option{policy.LockTTL(c.lockTTL), policy.MaxRun(c.lockTTL), policy.StoreTimeout(c.lockTTL / 2), c.onAbandoned()}
	p.send = c.mount(engine, strings.ReplaceAll(c.name, " ", "_"), func(ctx context.Context) error { return c.handle(ctx, p, ends) }, opts)
	return p
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
		p.link.cut.Store(true)
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
		if got := c.insist(second, "another payload", unavailable); got != reused {
			c.t.Errorf("%s: another payload got %s", c.name, got)
		}
	}
	got := c.insist(second, "payload", unavailable, inProgress)
	seen := verdict{reply: got, told: c.recovered.Load()}
	for i := range seen.effects {
		seen.effects[i] = c.effects[i].Load()
		c.shown += fmt.Sprint(seen.effects[i])
	}
	c.shown += " " + string(got)
	if want := c.expected(); seen.String() != want.String() {
		c.t.Errorf("%s: %s\nwant %s", c.name, seen, want)
	}
}

// insist repeats a request as long as it gets one of these replies.
func (c *cell) insist(p *pod, payload string, while ...reply) reply {
	got := p.send(payload)
	for slices.Contains(while, got) {
		c.pause()
		got = p.send(payload)
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
	default: // an error of a function releases its key, and a 503 under Reexecute
		return c.mode != "Reexecute" && !c.isCall
	}
}

// verdict is the result of a test.
type verdict struct {
	reply   reply
	effects [4]int64
	told    *string // the step that the RecoverFunc was told; nil: it was not called
}

func (v verdict) String() string {
	told := "nothing"
	if v.told != nil {
		told = fmt.Sprintf("%q", *v.told)
	}
	return fmt.Sprintf("%s, effects %v, the RecoverFunc was told %s", v.reply, v.effects, told)
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
	between := ""
	switch {
	case !c.isUncertain():
		return verdict{created, complete, nil}
	case c.mode == "Refuse":
		return verdict{unknown, soFar, nil}
	case c.mode == "Recover" && isCut:
		return verdict{created, soFar, &steps[c.point.step]}
	case c.mode == "Recover":
		return verdict{created, complete, &between}
	case isCut: // its outcome is unknown, and the policy repeats it
		complete[c.point.step] = 2
	}
	return verdict{created, complete, nil}
}

// link is a pod's way to the store, until it is cut.
type link struct {
	storage.Store
	cut atomic.Bool
}

var errCut = errors.New("no route to host")

func (l *link) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	if l.cut.Load() {
		return storage.Lease{}, nil, errCut
	}
	return l.Store.Acquire(ctx, c)
}

func (l *link) Complete(ctx context.Context, lease storage.Lease, result storage.Result) error {
	if l.cut.Load() {
		return errCut
	}
	return l.Store.Complete(ctx, lease, result)
}

func (l *link) Release(ctx context.Context, lease storage.Lease) error {
	if l.cut.Load() {
		return errCut
	}
	return l.Store.Release(ctx, lease)
}

func (l *link) Extend(ctx context.Context, lease storage.Lease, ttl time.Duration) error {
	if l.cut.Load() {
		return errCut
	}
	return l.Store.Extend(ctx, lease, ttl)
}

type silent struct{}

func (silent) Observe(context.Context, event.Event) {}
