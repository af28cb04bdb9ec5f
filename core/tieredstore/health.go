package tieredstore

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// failuresInARow is how many calls fail before the hot tier is left alone.
	failuresInARow = 5
	// rest is for how long, until one call tries it again.
	rest = time.Second
	// reportEvery is the time between two lines in the log, at least.
	reportEvery = 10 * time.Second
)

// errResting is the error of a call that was not made.
var errResting = errors.New("tieredstore: the hot tier is left alone for a while, because it has failed")

// health knows whether it is worth to ask the hot tier. A dead one would cost each
// request its timeout.
type health struct {
	logger *slog.Logger

	// troubled is whether failures is above 0. A tier that is well costs no lock.
	troubled atomic.Bool

	mutex    sync.Mutex
	failures int       // in a row
	retryAt  time.Time // when one call may try again

	unreported int
	reportAt   time.Time // when the next line may be logged
}

// mayTry reports whether to call. To a tier that has failed too often it lets one
// call through each time it has rested.
func (h *health) mayTry() bool {
	if !h.troubled.Load() {
		return true
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.failures < failuresInARow {
		return true
	}
	now := time.Now()
	if now.Before(h.retryAt) {
		return false
	}
	h.retryAt = now.Add(rest)
	return true
}

// answered takes down that a call was answered, if only to say what is wrong with
// a key.
func (h *health) answered(ctx context.Context, wrong error) {
	if h.troubled.Load() && h.recovered() {
		h.log().InfoContext(ctx, "tieredstore: the hot tier answers again")
	}
	if wrong != nil {
		h.report(ctx, wrong)
	}
}

// recovered forgets the failures, and reports whether the tier had been left alone.
func (h *health) recovered() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	rested := h.failures >= failuresInARow
	h.failures = 0
	h.troubled.Store(false)
	return rested
}

// failed takes down that a call was not answered.
func (h *health) failed(ctx context.Context, err error) {
	h.mutex.Lock()
	h.failures++
	h.troubled.Store(true)
	if h.failures >= failuresInARow {
		h.retryAt = time.Now().Add(rest)
	}
	h.mutex.Unlock()
	h.report(ctx, err)
}

// report logs what went wrong, or counts it when the last line is not long ago.
func (h *health) report(ctx context.Context, err error) {
	if count := h.due(); count > 0 {
		h.log().WarnContext(ctx, "tieredstore: the hot tier failed, the durable tier goes on alone", "error", err, "failures", count)
	}
}

// due returns how many failures the next line is about, or 0 when it is not due.
func (h *health) due() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.unreported++
	now := time.Now()
	if now.Before(h.reportAt) {
		return 0
	}
	count := h.unreported
	h.unreported, h.reportAt = 0, now.Add(reportEvery)
	return count
}

func (h *health) log() *slog.Logger {
	if h.logger == nil {
		return slog.Default()
	}
	return h.logger
}
