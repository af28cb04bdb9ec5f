// Package calls is shared by the adapters that guard calls of other protocols than HTTP.
package calls

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
)

// Patient is a client's context without its deadline. A deadline of a call says how long the
// client waits, and a guarded handler outlives its client: policy.MaxRun bounds the run.
type Patient struct{ context.Context }

// Deadline implements context.Context.
func (Patient) Deadline() (time.Time, bool) { return time.Time{}, false }

// Limit returns the context of a run, and whether a lease guards the run. Without a lease the
// context has the client's deadline.
func (p Patient) Limit(ctx context.Context) (limited context.Context, guarded bool, cancel context.CancelFunc) {
	_, guarded = core.LeaseFrom(ctx)
	if deadline, has := p.Context.Deadline(); has && !guarded {
		limited, cancel = context.WithDeadline(ctx, deadline)
		return limited, false, cancel
	}
	return ctx, guarded, func() {}
}

// Mark sets the mark that a handler's error carries.
func Mark(ctx context.Context, err error) {
	switch {
	case failure.IsUncertain(err):
		failure.MarkUncertain(ctx, event.ErrorTypes(err))
	case failure.IsRetryable(err):
		failure.MarkRetryable(ctx, event.ErrorTypes(err))
	}
}

// Unmarked returns the error inside of failure.Retryable or failure.Uncertain, which add no
// text. Why: a protocol that has errors of its own sends only their text where something is
// around them.
func Unmarked(err error) error {
	if !failure.IsRetryable(err) && !failure.IsUncertain(err) {
		return err
	}
	if inner := errors.Unwrap(err); inner != nil && inner.Error() == err.Error() {
		return inner
	}
	return err
}

// Message tells a client in one text how a request failed, or how to mend it.
func Message(p *problem.Problem) string {
	if p.Error == p.Title {
		return p.Detail
	}
	return p.Error
}

// Writer is the http.ResponseWriter to which the engine responds.
type Writer struct {
	// Own says that the client gets the handler's own response, and not a decoded copy. The
	// body is then dropped.
	Own    bool
	Status int
	Body   []byte

	header http.Header
}

// Header implements http.ResponseWriter.
func (w *Writer) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(status int) { w.Status = status }

// Write implements http.ResponseWriter.
func (w *Writer) Write(p []byte) (int, error) {
	if !w.Own {
		w.Body = append(w.Body, p...)
	}
	return len(p), nil
}
