package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// maxOrder bounds the body of a payment.
const maxOrder = 4 << 10

var podNames = [2]string{"A", "B"}

// pod is one process of the deployment: an engine, a handler, and a link to the store
// that all pods share.
type pod struct {
	name    string
	place   int
	shop    *shop
	engine  *core.Engine
	guarded http.Handler
	page    http.Handler  // for operators
	dead    chan struct{} // closed when the pod is killed
	killing sync.Once
}

func newPod(s *shop, place int) (*pod, error) {
	p := &pod{name: podNames[place], place: place, shop: s, dead: make(chan struct{})}
	var err error
	events := inspector.Remember(p, rememberedEvents)
	p.engine, err = core.New(&link{pod: p, store: s.store, Inspector: s.store}, core.ScopeBy(customer),
		core.WithObserver(events), core.WithInstance(p.name), core.WithDiffers())
	if err != nil {
		return nil, err
	}
	if p.page, err = inspector.New(p.engine, visitor, inspector.Remembered(events), inspector.Derived("charge")); err != nil {
		return nil, err
	}
	p.guarded = p.engine.Handler(http.HandlerFunc(p.pay),
		policy.Required(false), // the page also shows payments without a key
		policy.LockTTL(s.pace.lockTTL),
		policy.TTL(retention),
		policy.MaxRequestBytes(maxOrder),
	)
	return p, nil
}

// rememberedEvents bounds the events that a pod keeps for its page.
const rememberedEvents = 200

// visitor gives every right to every request, because each browser tab has its own shop.
func visitor(*http.Request) (inspector.Operator, error) {
	return inspector.Operator{Name: "visitor", May: inspector.Read | inspector.Reveal | inspector.Settle}, nil
}

// customer returns the owner of the key. Each shop has one customer.
func customer(r *http.Request) (string, error) { return r.PathValue("shop"), nil }

// pay is the guarded handler. The bank needs some time before the charge.
func (p *pod) pay(w http.ResponseWriter, r *http.Request) {
	ctx, visit := r.Context(), visitFrom(r.Context())
	var order struct {
		Order  string `json:"order"`
		Amount int64  `json:"amount"`
	}
	body := http.MaxBytesReader(w, r.Body, maxOrder)
	if err := json.NewDecoder(body).Decode(&order); err != nil || order.Order == "" || order.Amount <= 0 {
		writeJSON(w, http.StatusBadRequest, message{`send {"order":"1042","amount":3200}, in cents`})
		return
	}
	if !p.wait(ctx, p.shop.pace.bank/2) {
		return
	}
	p.strike(visit, killBeforeCharge)
	if !p.wait(ctx, p.shop.pace.bank/2) {
		return
	}

	lease, _ := core.LeaseFrom(ctx)
	booked, fresh := p.shop.bank.charge(core.DeriveKey(ctx, "charge"),
		charge{Order: order.Order, Amount: order.Amount, Pod: p.name, Attempt: lease.Attempt})
	failure.MarkExecuted(ctx) // the point of no return
	what := "charged"
	if !fresh {
		what = "recognised"
	}
	p.shop.tell(notice{What: what, Request: visit.request, Pod: p.name, Attempt: lease.Attempt, Charge: &booked})
	p.strike(visit, killAfterCharge)
	writeJSON(w, http.StatusCreated, booked)
}

// wait returns false if the context ended: the client no longer waits for the response.
func (p *pod) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-p.dead:
		panic(http.ErrAbortHandler) // the handler of a killed process stops, and its connection breaks
	}
}

// strike kills the pod if the visit's fault says so at this point.
func (p *pod) strike(v visit, here fault) {
	if v.fault == here {
		p.kill()
		panic(http.ErrAbortHandler)
	}
}

// kill simulates SIGKILL within one process. The pod's link is cut, its
// handlers stop, and the engine cannot settle the responses that the store has not
// taken yet.
func (p *pod) kill() {
	p.killing.Do(func() {
		close(p.dead)
		p.shop.tell(notice{What: "killed", Pod: p.name})
		atOnce, cancel := context.WithCancel(context.Background())
		cancel()
		p.engine.Shutdown(atOnce) //nolint:errcheck // the error lists the abandoned work: all of it, like after a real kill
		p.shop.restartLater(p)
	})
}

func (p *pod) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// Observe implements event.Observer. The page draws the engine's events.
func (p *pod) Observe(ctx context.Context, event event.Event) {
	if p.isDead() {
		return
	}
	p.shop.tell(notice{
		What: string(event.Result), Request: visitFrom(ctx).request, Pod: p.name, Attempt: event.Attempt,
	})
}
