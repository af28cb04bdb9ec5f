package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/testkit"
)

type noObserver struct{}

func (noObserver) Observe(context.Context, event.Event) {}

// partsOfAFirst are the parts of one first-time request of 300 bytes of JSON, with a key of
// its own each time. A part does its work as the engine does, on the same types.
type partsOfAFirst struct {
	tb     testing.TB
	engine *Engine
	store  *memstore.Store
	body   []byte
	a      *attempt
	result storage.Result
	keys   int
	buffer [256]byte

	bare  *http.Request
	state struct { // what memory makes
		identity  *identity
		execution *execution
		request   *http.Request
	}
}

func newParts(tb testing.TB) *partsOfAFirst {
	tb.Helper()
	p := &partsOfAFirst{tb: tb}
	p.body = []byte(`{"order_id":"o-1042","amount":4200,"currency":"EUR","customer":{"id":"c-77","country":"DE"},"items":[{"sku":"a","n":1},{"sku":"b","n":2}],"note":"`)
	p.body = append(append(p.body, strings.Repeat("n", 300-2-len(p.body))...), `"}`...)
	p.result = storage.Result{
		State: storage.Completed, Status: http.StatusCreated, Retain: time.Hour, Body: p.body,
		Header: storage.Header{{Op: storage.Set, Name: "Content-Type", Value: "application/json"}},
	}
	return p
}

// renew makes an empty store, and the parts' common input.
func (p *partsOfAFirst) renew() {
	p.store = memstore.New()
	engine, err := New(p.store, SharedScope, WithObserver(noObserver{}))
	testkit.Must(p.tb, err)
	p.engine, p.a, p.bare = engine, newAttempt(&engine.shared, engine.defaults), new(http.Request)
	p.memory()
	p.a.request = Request{Scope: "Bearer alice", Method: http.MethodPost, Path: "/payments"}
	p.names()
	p.a.read(p.input())
	p.a.fingerprint()
	p.a.forget()
}

func (p *partsOfAFirst) input() fingerprint.Request {
	return fingerprint.Request{Method: http.MethodPost, Path: "/payments", ContentType: "application/json", Body: p.body}
}

// floor is the floor of examples/bench.
func (p *partsOfAFirst) floor() {
	sha256.Sum256(p.buffer[:61])
	sha256.Sum256(p.body)
	json.Valid(p.body)
}

// names makes the storage key of a new key.
func (p *partsOfAFirst) names() {
	p.keys++
	p.a.request.Key = "00000000-0000-4000-0000-" + strconv.FormatInt(1e12+int64(p.keys), 10)[1:]
	p.a.digest = digestOf(p.engine.service, &p.a.request)
}

func (p *partsOfAFirst) digest() { fingerprint.Digest(p.input()) }

// fingerprint reads the request, and writes the three texts of its claim.
func (p *partsOfAFirst) fingerprint() {
	p.a.request.Fingerprint = ""
	p.a.read(p.input())
	p.a.Peek()
	p.a.fingerprint()
	p.a.forget()
}

// sketch takes the reading and the hash of the key for granted.
func (p *partsOfAFirst) sketch(reading *fingerprint.Reading) {
	reading.AppendSketch(p.buffer[:0], (&claimant{identity: &identity{}, summed: true}).sketchKey())
}

// records claims and completes a new key in the store.
func (p *partsOfAFirst) records() {
	p.names()
	p.a.read(p.input())
	p.a.claimant.context, p.a.claimant.made = context.Background(), false
	p.a.record = hex.EncodeToString(p.a.digest[:]) // the fingerprint is an earlier request's
	lease, _, err := p.store.Acquire(context.Background(), p.a.claimant)
	p.a.forget()
	if err == nil {
		err = p.store.Complete(context.Background(), lease, p.result)
	}
	testkit.Must(p.tb, err)
}

// memory allocates the state of a run: beside the names and the record, all that a
// first-time request allocates.
func (p *partsOfAFirst) memory() {
	p.state.identity, p.state.execution, p.state.request = new(identity), new(execution), p.bare.WithContext(context.Background())
}

// capture buffers the response.
func (p *partsOfAFirst) capture(w http.ResponseWriter) {
	run, c := &p.state.execution.run, &p.state.execution.captured
	run.identity = p.a.identity
	clear(w.Header())
	*c = capture{}
	c.begin(w, p.bare, p.state.execution, &p.engine.responder, p.engine.defaults.policy.MaxResponseBytes, p.state.execution.small[:0])
	c.Header()["Content-Type"] = []string{"application/json"}
	c.WriteHeader(p.result.Status)
	if _, err := c.Write(p.body); err != nil || !c.headerIsSettled() {
		p.tb.Fatal("the response is not captured")
	}
}

// whole is the engine's part of a first-time request: all parts but names, and the
// bookkeeping of the run between them. It has no handler and no capture.
func (p *partsOfAFirst) whole() {
	a := newAttempt(&p.engine.shared, p.engine.defaults)
	p.names()
	a.request, a.digest = p.a.request, p.a.digest
	a.request.Fingerprint = ""
	a.name()
	a.read(p.input())
	decision := a.begin(context.Background())
	if decision.Run == nil {
		p.tb.Fatal("the key is not new")
	}
	response := Response{Status: p.result.Status, Header: p.result.Header, Body: p.result.Body}
	testkit.Must(p.tb, p.engine.Finish(decision.Run, failure.Outcome{Status: response.Status}, response))
}

// BenchmarkPartsOfAFirst measures the parts of a first-time request in units of the floor
// of examples/bench: two SHA-256 sums and one json.Valid. Each figure is the median of the
// ratios of many slices. "records" includes a name and the store's three calls, "memory" is
// the state of a run, and "whole" is Begin and Finish.
func BenchmarkPartsOfAFirst(b *testing.B) {
	p := newParts(b)
	p.renew()
	reading := fingerprint.ReadForSketch(p.input(), nil, [16]byte{})
	defer reading.Close()
	w := &discardWriter{header: make(http.Header)}
	arms := []struct {
		name string
		run  func()
	}{
		{"floor", p.floor},
		{"names", p.names},
		{"digest", p.digest},
		{"fingerprint", p.fingerprint},
		{"sketch", func() { p.sketch(reading) }},
		{"records", p.records},
		{"memory", p.memory},
		{"capture", func() { p.capture(w) }},
		{"whole", p.whole},
	}
	const slice, perStore = 250, 8 // a short slice is rarely interrupted
	ratios := make([][]float64, len(arms))
	for n := 0; b.Loop(); n++ {
		if n%perStore == 0 {
			p.renew()
		}
		var floor time.Duration
		for i, arm := range arms {
			start := time.Now()
			for range slice {
				arm.run()
			}
			took := time.Since(start)
			if i == 0 {
				floor = took
			}
			ratios[i] = append(ratios[i], float64(took)/float64(floor))
		}
	}
	for i, arm := range arms[1:] {
		slices.Sort(ratios[i+1])
		b.ReportMetric(ratios[i+1][len(ratios[i+1])/2], arm.name+"-floors")
	}
}

// BenchmarkRunContext compares runContext with package context, for a handler that
// never calls Done.
func BenchmarkRunContext(b *testing.B) {
	parent, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.Run("runContext", func(b *testing.B) {
		run := new(Run)
		b.ReportAllocs()
		for b.Loop() {
			var c runContext
			c.begin(parent, run)
			c.end(nil)
		}
	})
	b.Run("context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := context.WithCancelCause(context.WithoutCancel(parent))
			cancel(nil)
		}
	})
}
