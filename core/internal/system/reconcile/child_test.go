//go:build unix

package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// environment has the part of a child, whose program is this test's binary.
const environment = "ONCEKEY_RECONCILE_CHILD"

const (
	// lockTTL is the lease of an order and of a question.
	lockTTL = time.Second
	// longest is the time that a busy machine may need for one operation of a store.
	longest = 20 * time.Second
	// patience bounds every wait.
	patience = 2 * time.Minute
)

// part is the task of a child: it orders and dies at a point, or it reconciles.
type part struct {
	place
	Folder     string // of the files that a test and its children share
	Reconciles bool
	fate
}

// The points at which a process dies.
const (
	afterClaim   = "after the claim"
	beforeCharge = "before the charge"
	inCharge     = "in the charge"
	afterCharge  = "after the charge"
	beforeRecord = "before the record"
	afterRecord  = "after the record"
)

// fate is an order and the point at which its process dies.
type fate struct {
	Key, Point string
	Receipt    bool // the provider can show the receipt of its charge later
}

// runChild is the program of a child.
func runChild(text string) error {
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	store, closes, err := p.open(ctx, false)
	if err != nil {
		return err
	}
	defer closes()
	if !p.Reconciles {
		return p.order(ctx, store)
	}
	s, err := newShop(&p, store)
	if err != nil {
		return err
	}
	fmt.Println("reconciles")
	err = s.engine.Reconcile(ctx, s.find, core.ReconcileOptions{
		After: lockTTL, Every: 200 * time.Millisecond, Backoff: lockTTL, MaxBackoff: lockTTL,
	})
	ending, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(err, s.engine.Shutdown(ending))
}

// order sends the order until the process dies. A busy machine may lose a lease before.
func (p *part) order(ctx context.Context, store storage.Store) error {
	s, err := newShop(p, &mortal{store, p})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		fmt.Println(s.send(ctx, p.Key))
	}
	return errors.New("the process did not reach its point: " + p.Point)
}

// reach dies, if it is the point of this process.
func (p *part) reach(point string) {
	if point == p.Point {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	}
}

// mortal is a store whose process may die after a claim, and before and after a record.
type mortal struct {
	storage.Store
	part *part
}

func (m *mortal) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	lease, record, err := m.Store.Acquire(ctx, request)
	if err == nil && record == nil {
		m.part.reach(afterClaim)
	}
	return lease, record, err
}

func (m *mortal) Complete(ctx context.Context, lease storage.Lease, result storage.Result) error {
	m.part.reach(beforeRecord)
	err := m.Store.Complete(ctx, lease, result)
	if err == nil {
		m.part.reach(afterRecord)
	}
	return err
}

// shop is a service with one route, over a provider that charges for each call.
type shop struct {
	part    *part
	engine  *core.Engine
	handler http.Handler
}

const (
	scope   = "shop"
	orders  = "/orders"
	pattern = http.MethodPost + " " + orders
)

func newShop(p *part, store storage.Store) (*shop, error) {
	owner := core.ScopeBy(func(*http.Request) (string, error) { return scope, nil })
	engine, err := core.New(store, owner, core.WithObserver(event.Log(nil))) // to the standard error
	if err != nil {
		return nil, err
	}
	s := &shop{part: p, engine: engine}
	route, err := engine.Route(policy.LockTTL(lockTTL), policy.StoreTimeout(longest))
	if err != nil {
		return nil, err
	}
	route.Declare(core.Endpoint{Method: http.MethodPost, Pattern: pattern}) // for a process without requests
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { engine.Serve(w, r, route, http.HandlerFunc(s.handle)) })
	s.handler = mux
	return s, nil
}

// send sends an order to the shop's handler.
func (s *shop) send(ctx context.Context, key string) *httptest.ResponseRecorder {
	return testkit.Serve(s.handler, testkit.Post(ctx, orders, key, `{"item":"tea"}`))
}

// handle reserves the item, and charges for it.
func (s *shop) handle(w http.ResponseWriter, r *http.Request) {
	receipt := ""
	for _, step := range []string{"reserve", "charge"} {
		if step == "charge" {
			s.part.reach(beforeCharge)
		}
		got, err := core.Step(r.Context(), step, func(ctx context.Context) (string, error) {
			if step == "charge" {
				s.part.reach(inCharge)
				defer s.part.reach(afterCharge)
			}
			return s.effect(core.DeriveKey(ctx, step))
		})
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		receipt = got
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, receipt)
}

// effect is a reservation or a charge. The provider does not compare keys: a second charge
// is a second effect.
func (s *shop) effect(key string) (receipt string, err error) {
	line := key
	if s.part.Receipt {
		receipt = "receipt of " + key[:8]
		line += " " + receipt
	}
	return receipt, s.part.write("effects", line)
}

// find is the FindFunc: it asks the provider. Each first question gets no answer. A question
// takes longer than its lease, which has to be renewed.
func (s *shop) find(ctx context.Context, lost core.Lost) (found core.Finding, err error) {
	earlier := s.part.read("questions")
	if err := s.part.write("questions", fmt.Sprint(lost.Record, " begins ", os.Getpid())); err != nil {
		return core.AskAgain, err
	}
	defer func() {
		err = errors.Join(err, s.part.write("questions", fmt.Sprint(lost.Record, " ends ", os.Getpid())))
	}()
	select {
	case <-ctx.Done():
		return core.AskAgain, ctx.Err()
	case <-time.After(lockTTL * 3 / 2):
	}
	if !contains(earlier, lost.Record+" ends") {
		return core.AskAgain, nil
	}
	key := lost.DerivedKey("charge")
	for _, line := range s.part.read("effects") {
		if charged, receipt, _ := strings.Cut(line, " "); charged == key {
			if receipt == "" {
				return core.Happened, nil
			}
			return core.Responded(policy.Response{Status: http.StatusCreated, Body: []byte(receipt)}), nil
		}
	}
	return core.DidNotHappen, nil
}
