package explore

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
)

// errCallback is the value of a callback's panic.
var errCallback = errors.New("the callback's own panic")

// brokenStatus is the status of the half response that a panicking problem.Writer
// leaves behind. No client may receive it.
const brokenStatus = 299

// enter counts a call of a callback, and panics if the plan says so. The request -1
// means no request in particular.
func (p *pod) enter(request int, in Callback) {
	w := p.world
	if len(w.plan.Panics) == 0 || p.isDead() || !w.planned(request, in) {
		return
	}
	w.add(Fact{Pod: p.ID, Request: request, Kind: Broke, Source: -1, N: int(in), Text: callbackNames[in]})
	panic(errCallback)
}

// planned reports whether the plan makes this call of a callback panic.
func (w *world) planned(request int, in Callback) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	call := Panicking{Request: request, In: in}
	n := w.entries[call]
	w.entries[call]++
	return slices.ContainsFunc(w.plan.Panics, func(c Panicking) bool {
		return c.In == in && c.N == n && (c.Request == request || request < 0)
	})
}

func requestOf(ctx context.Context) int {
	id, _ := ctx.Value(requestKey{}).(int)
	return id
}

// scope is the engine's Scope.
func (p *pod) scope(r *http.Request) (string, error) {
	p.enter(requestOf(r.Context()), InScope)
	return p.world.tenant, nil
}

// classify is the policy's Classifier.
func (p *pod) classify(o failure.Outcome) failure.Class {
	p.enter(-1, InClassifier)
	if p.world.plan.Policy.Keep5xx && o.Status >= http.StatusInternalServerError && !o.Panicked {
		return failure.ClassCache
	}
	return failure.Classify(o)
}

// writeProblem is a problem.Writer that writes the default problem. Before a planned
// panic it writes half of a response.
func (p *pod) writeProblem(w http.ResponseWriter, r *http.Request, problem problem.Problem) {
	defer func() {
		if cause := recover(); cause != nil {
			w.WriteHeader(brokenStatus)
			panic(cause)
		}
	}()
	p.enter(requestOf(r.Context()), InProblemWriter)
	body, err := json.Marshal(problem)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(problem.Status)
	w.Write(body) //nolint:errcheck // the engine sees the error
}
