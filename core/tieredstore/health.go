package tieredstore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// failuresInARow is the number of failed calls after which the hot tier gets a
	// pause.
	failuresInARow = 5
	// rest is the length of the pause. After the pause one call tries the hot tier again.
	rest = time.Second
	// reportEvery is the minimum time between two lines in the log.
	reportEvery = 10 * time.Second
)

// errResting is the error of a call that was skipped during the pause.
var errResting = errors.New("tieredstore: the hot tier is not called for a second, because it has failed")

// health decides whether to call the hot tier. Without it, each request would wait
// for the timeout of a dead hot tier.
type health struct {
	logger *slog.Logger

	// troubled is whether failures is above 0. It saves a lock while the tier works.
	troubled atomic.Bool

	mutex    sync.Mutex
	failures int       // consecutive
	retryAt  time.Time // time of the next try

	unreported int
	reportAt   time.Time // time of the next log line
}

// mayTry reports whether to call the hot tier. During a series of failures it allows
// one call after each pause.
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

// responded records that the hot tier responded to a call. problem is an error that
// concerns only the key, or nil.
func (h *health) responded(ctx context.Context, problem error) {
	if h.troubled.Load() && h.recovered() {
		h.log().InfoContext(ctx, "tieredstore: the hot tier responds again")
	}
	if problem != nil {
		h.report(ctx, problem)
	}
}

// recovered resets the failures, and reports whether the tier had been paused.
func (h *health) recovered() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	rested := h.failures >= failuresInARow
	h.failures = 0
	h.troubled.Store(false)
	return rested
}

// failed records that the hot tier did not respond to a call.
func (h *health) failed(ctx context.Context, err error) {
	h.mutex.Lock()
	h.failures++
	h.troubled.Store(true)
	h.retryAt = time.Now().Add(rest)
	h.mutex.Unlock()
	h.report(ctx, err)
}

// report logs a failure, or only counts it when the last line is recent.
func (h *health) report(ctx context.Context, err error) {
	if count := h.due(); count > 0 {
		h.log().WarnContext(ctx, "tieredstore: the hot tier failed, the durable tier serves requests alone", "error", err, "failures", count)
	}
}

// due returns the number of failures for the next line, or 0 when no line is due.
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

func (h *health) log() *slog.Logger { return cmp.Or(h.logger, slog.Default()) }
