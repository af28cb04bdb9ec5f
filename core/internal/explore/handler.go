package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// errKilled is the panic value of a handler whose process was killed.
var errKilled = errors.New("the process was killed")

// errPanic is the value of a handler's own panic.
var errPanic = errors.New("the handler's own panic")

// errStep is the error of a step that fails.
var errStep = errors.New("the step's own error")

const (
	innerName     = "step"
	innerEndpoint = storage.MethodCall + " " + innerName
	sourceHeader  = "X-Run" // names the request whose handler made the response
	keptFor       = "KeepFor"
	recovered     = "recovered" // the body of a RecoverFunc's response
	recovers      = "RecoverFunc"
)

// handling is one run of a handler.
type handling struct {
	pod    *pod
	plan   *Request
	w      http.ResponseWriter
	ctx    context.Context
	flags  Flags
	status int // zero before the handler writes it
	// written is the length of the body so far.
	written int64
	beside  *besideStep   // nil without a step on another goroutine
	own     *besideStep   // of this goroutine, nil for the handler's
	later   time.Duration // how much later this goroutine continues after a freeze
}

// serve runs the handler of a request's plan.
func (p *pod) serve(plan *Request, w http.ResponseWriter, r *http.Request) {
	h := &handling{pod: p, plan: plan, w: w, ctx: r.Context()}
	started := Fact{Kind: Started}
	if lease, ok := core.LeaseFrom(h.ctx); ok {
		started.Attempt, h.flags = lease.Attempt, Guarded
	}
	h.add(started)
	defer func() {
		cause := recover()
		if cause != nil {
			h.flags |= Panicked
		}
		h.flags |= h.beside.atEnd(h)
		h.add(Fact{Kind: Stopped, Status: h.status})
		if cause != nil {
			panic(cause)
		}
	}()
	for _, step := range plan.Handler {
		h.pause()
		if !h.do(step) {
			break
		}
	}
	h.pause()
	if h.status == 0 && h.flags&Silent == 0 {
		h.respond(http.StatusCreated)
	}
}

// pause blocks the handler while its process is frozen. It ends the handler of a
// killed process.
func (h *handling) pause() {
	h.pod.hold(h.plan.ID, 2_000_000+h.later)
	if h.pod.isDead() {
		panic(errKilled)
	}
}

// do takes one step, and reports whether the handler continues.
func (h *handling) do(s Step) bool {
	switch s.Do {
	case Sleep:
		sleep(s.For)
	case Await:
		if wait(h.ctx, s.For) == nil {
			h.add(Fact{Kind: Ran, Text: "has waited", Flags: Waited})
			return true
		}
		return h.look()
	case Look:
		return h.look()
	case Effect:
		h.effect(false, 0)
	case CarefulEffect:
		if !h.look() {
			return false
		}
		h.effect(false, Careful)
	case Panic:
		panic(errPanic)
	case CallDo:
		h.callDo(s)
	case InStep:
		return h.step(s)
	case Beside:
		h.stepBeside(s)
	case Keep:
		if core.KeepFor(h.ctx, s.For) {
			h.add(Fact{Kind: Ran, Text: keptFor, Since: s.For})
		}
	case MarkExecuted, MarkRetryable, MarkUncertain:
		h.mark(s.Do)
	default:
		h.output(s)
	}
	return true
}

// mark declares the outcome to the engine.
func (h *handling) mark(as StepKind) {
	switch {
	case as == MarkExecuted && failure.MarkExecuted(h.ctx):
		h.flags |= Executed
	case as == MarkRetryable && failure.MarkRetryable(h.ctx, "try again"):
		h.flags |= Retryable
	case as == MarkUncertain && failure.MarkUncertain(h.ctx, "the provider did not reply"):
		h.flags |= Uncertain
	}
}

// output takes a step that writes.
func (h *handling) output(s Step) {
	switch s.Do {
	case Respond:
		h.respond(s.N)
	case Flush:
		h.flags |= Streamed
		h.begin(http.StatusCreated)
		_ = http.NewResponseController(h.w).Flush() // the engine sees the lost response
	case Write:
		h.begin(http.StatusCreated)
		h.write(strings.Repeat("x", s.N))
	default:
	}
}

// look reports whether the context is still valid. A handler with an ended context
// stops. If the handler has written no response, the engine writes one.
func (h *handling) look() bool {
	err := h.ctx.Err()
	if err == nil || h.pod.world.plan.sabotage == neverLooks {
		return true
	}
	if h.status == 0 {
		h.flags |= Silent
	}
	h.add(Fact{Kind: Ran, Err: context.Cause(h.ctx), Text: "finds its context ended", Flags: Stopping})
	return false
}

// effect is the side effect. In a transaction the commit makes it count.
func (h *handling) effect(inner bool, flags Flags) {
	f := h.fact(Fact{Kind: Took, Inner: inner, Flags: flags | h.flags})
	if tx, ok := h.ctx.Value(transactionKey{}).(*transaction); ok && !inner {
		f.Flags |= InTx
		tx.effects = append(tx.effects, f)
		return
	}
	h.pod.world.add(f)
}

func (h *handling) begin(status int) {
	if h.status != 0 {
		return
	}
	h.status = status
	h.w.Header().Set(sourceHeader, fmt.Sprint(h.plan.ID))
	h.w.WriteHeader(status)
}

func (h *handling) respond(status int) {
	h.begin(status)
	h.write(fmt.Sprintf("request %d on pod %d", h.plan.ID, h.pod.ID))
}

// write writes a part of the body. A body over MaxResponseBytes is streamed.
func (h *handling) write(text string) {
	if h.written += int64(len(text)); h.written > h.pod.world.plan.Policy.MaxResponse {
		h.flags |= Streamed
	}
	h.w.Write([]byte(text)) //nolint:errcheck // the engine sees the error
}

// callDo makes an effect that core.Do guards.
func (h *handling) callDo(s Step) {
	key := fmt.Sprint("inner ", h.plan.Key)
	call := core.Call{Scope: h.pod.world.tenant, Name: innerName, Key: key, Route: h.pod.inner}
	_, _, err := core.Do(h.ctx, h.pod.engine, call, func(ctx context.Context) (string, error) {
		sleep(s.For)
		h.pause()
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		h.effect(true, Careful)
		return "done", nil
	})
	h.add(Fact{Kind: Ran, Err: err, Text: "core.Do"})
}

func (h *handling) add(f Fact) { h.pod.world.add(h.fact(f)) }

func (h *handling) fact(f Fact) Fact {
	f.Pod, f.Request, f.Key, f.Source = h.pod.ID, h.plan.ID, h.plan.Key, -1
	f.Flags |= h.flags
	return f
}

// recover is the policy's RecoverFunc. It checks whether an earlier attempt left an
// effect.
func (p *pod) recover(ctx context.Context, abandoned policy.Abandoned) (*policy.Response, error) {
	id := requestOf(ctx)
	p.enter(id, InRecoverFunc)
	failure.MarkExecuted(ctx) // the marks of a RecoverFunc do not count for the handler
	sleep(p.world.plan.Find)
	source, ok := p.world.effectUnder(abandoned.Key)
	p.world.add(Fact{Pod: p.ID, Request: id, Kind: Ran, Source: source, N: stepNumber(abandoned.Step), Text: recovers})
	if !ok {
		core.KeepFor(ctx, time.Hour) // counts only for a response that the RecoverFunc finds
		return nil, nil              //nolint:nilnil // no attempt left an effect
	}
	header := http.Header{}
	header.Set(sourceHeader, fmt.Sprint(source))
	return &policy.Response{Status: cmp.Or(p.world.plan.Found, http.StatusCreated), Header: header, Body: []byte(recovered)}, nil
}
