package explore

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/failure"
)

const (
	stepFails      = "core.Step"
	stepBeginsLate = "core.Step begins although its context has ended"

	stepName = "step "
	// newerLine is a line of steps that a newer version has written.
	newerLine = `{"step":"newer","newer":true}` + "\n"
)

// stepNumber is the number of a step's name, or -1.
func stepNumber(name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, stepName))
	if err != nil {
		return -1
	}
	return n
}

// step calls core.Step. A handler whose step has failed responds with an error, and stops.
func (h *handling) step(s Step) bool {
	if err := h.record(s); err == nil {
		return true
	}
	if h.status == 0 {
		h.respond(http.StatusInternalServerError)
	}
	return false
}

// record calls core.Step. Steps above 9 fail.
func (h *handling) record(s Step) error {
	cutOff := false
	made, err := core.Step(h.ctx, fmt.Sprint(stepName, s.N%10), func(ctx context.Context) (int, error) {
		h.own.enter(stepRuns)
		defer h.own.enter(stepIsWritten)
		h.add(Fact{Kind: Entered, N: s.N % 10})
		if ctx.Err() != nil {
			h.add(Fact{Kind: Ran, Text: stepBeginsLate})
		}
		sleep(s.For)
		h.pause()
		if cutOff = ctx.Err() != nil; cutOff {
			return 0, ctx.Err()
		}
		if s.N >= 10 {
			return 0, errStep
		}
		h.add(Fact{Kind: Stepped, N: s.N})
		return h.plan.ID, nil
	})
	if err == nil {
		h.pod.world.add(Fact{
			Pod: h.pod.ID, Request: h.plan.ID, Key: h.plan.Key, Kind: Recorded, N: s.N % 10, Source: made, Flags: h.flags,
		})
		return nil
	}
	if cutOff || failure.IsUncertain(err) {
		h.flags |= Uncertain
	}
	h.add(Fact{Kind: Ran, Err: err, N: s.N % 10, Text: stepFails})
	return err
}

// besideStep is a step on another goroutine of a handler. There is at most one, because two
// would compete for the engine's lock in one instant.
type besideStep struct {
	mu    sync.Mutex
	phase stepPhase
	moved chan struct{} // closed when the phase changes
}

type stepPhase uint8

const (
	stepWaits     stepPhase = iota // core.Step is not called yet, or has returned
	stepIsWritten                  // the engine writes a line of the step
	stepRuns                       // the step's function runs
	stepUnknown                    // core.Step has returned, and the outcome is unknown
)

func (b *besideStep) enter(phase stepPhase) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.phase = phase
	close(b.moved)
	b.moved = make(chan struct{})
}

func (b *besideStep) now() (stepPhase, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.phase, b.moved
}

// atEnd returns the flags by which the step marks a handler that ends. The handler does not end while
// a line of the step is written, because the outcome would depend on the order of goroutines
// in one instant.
func (b *besideStep) atEnd(h *handling) Flags {
	if b == nil {
		return 0
	}
	phase, moved := b.now()
	for phase == stepIsWritten {
		<-moved
		sleep(time.Duration(1 + h.pod.world.hash(h.pod.ID, h.plan.ID, 12)%uint64(jitter)))
		phase, moved = b.now()
	}
	switch phase {
	case stepRuns:
		return DuringStep
	case stepUnknown:
		return Uncertain
	default:
		return 0
	}
}

// stepBeside calls core.Step on another goroutine, which may outlive the handler.
func (h *handling) stepBeside(s Step) {
	h.beside = &besideStep{moved: make(chan struct{})}
	other := *h
	other.own, other.flags, other.later = h.beside, h.flags&^Uncertain, 2_000_000
	h.pod.world.group.Go(func() {
		defer func() {
			end := stepWaits
			if other.flags&Uncertain != 0 {
				end = stepUnknown
			}
			other.own.enter(end)
			if cause := recover(); cause != nil && cause != errKilled { //nolint:errorlint // the very value
				panic(cause)
			}
		}()
		if s.N >= 20 {
			sleep(s.For)
			s.N, s.For = s.N%10, 0
		}
		other.own.enter(stepIsWritten)
		_ = other.record(s) // its facts have the error
	})
}

// drawBeside makes a handler with a step on another goroutine, which ends before the handler
// or after it.
func drawBeside(d *dice, p *Plan) []Step {
	span := func() time.Duration {
		return d.span(0, pick(d, 5*time.Millisecond, 20*time.Millisecond, p.Policy.LockTTL))
	}
	return []Step{{Do: Beside, N: 1 + pick(d, 0, 0, 0, 10, 20, 20), For: span()}, {Do: Sleep, For: span()}}
}

// newer adds a line to the steps of a request whose process has a newer version.
func (w *world) newer(steps string, who caller) string {
	if r := w.plan.request(who.request); r != nil && r.Newer && steps != "" && !strings.HasPrefix(steps, newerLine) {
		return newerLine + steps
	}
	return steps
}
