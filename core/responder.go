package core

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// responder has the form of the engine's own responses: its problems, its replays, and the
// fields that it adds to a handler's response. New sets its fields.
type responder struct {
	write        problem.Writer
	custom       bool                                              // write comes from WithProblemWriter
	docs         string                                            // of WithDocs, or ""
	keyHeader    string                                            // the name that problems use
	replayHeader string                                            // canonical
	expiryHeader string                                            // of WithExpiryHeader, or ""
	onReplay     func(http.Header, *http.Request, *storage.Record) // nil: none
	echoed       []string                                          // the key headers that WithKeyEcho sends back
}

// refuse writes a problem by write, or by the engine's problem.Writer if write is nil.
func (re *responder) refuse(w http.ResponseWriter, r *http.Request, write problem.Writer, p problem.Problem) {
	re.describe(w.Header(), &p)
	if write == nil {
		write = re.write
	}
	write(w, r, re.naming(p))
}

// describe sets the header fields of a problem, and names the page of WithDocs.
func (re *responder) describe(h http.Header, p *problem.Problem) {
	p.SetHeader(h)
	if re.docs != "" {
		p.Type = re.docs + "#" + p.Code
		h.Add("Link", "<"+re.docs+`>; rel="describedby"`)
	}
}

// naming returns the problem with the program's key header in place of Idempotency-Key.
func (re *responder) naming(p problem.Problem) problem.Problem {
	if name := re.keyHeader; name != KeyHeader {
		p.Title = strings.ReplaceAll(p.Title, KeyHeader, name)
		p.Detail = strings.ReplaceAll(p.Detail, KeyHeader, name)
		p.Error = strings.ReplaceAll(p.Error, KeyHeader, name)
	}
	return p
}

// setReplay sets the header of a replay. The error is a panic of WithOnReplay's function,
// after which the header is complete as well.
func (re *responder) setReplay(h http.Header, r *http.Request, record *storage.Record) (err error) {
	values := make([]string, len(record.Header)+1)
	marker := values[len(record.Header):]
	marker[0] = "true"
	wire.ApplyHeader(record.Header, h, values)
	if re.onReplay != nil {
		err = panicked.Call("OnReplay", func() error {
			re.onReplay(h, r, record)
			return nil
		})
	}
	h[re.replayHeader] = marker
	re.setExpiry(h, record.Expires)
	return err
}

// setExpiry sets the header of WithExpiryHeader, if the end is known.
func (re *responder) setExpiry(h http.Header, end time.Time) {
	if re.expiryHeader != "" && !end.IsZero() {
		h[re.expiryHeader] = []string{end.UTC().Format(http.TimeFormat)}
	}
}

// isMarker reports whether the name is a spelling of the replay header or the expiry
// header, which a handler must not forge.
func (re *responder) isMarker(name string) bool {
	name = strings.TrimPrefix(name, http.TrailerPrefix)
	return len(name) == len(re.replayHeader) && strings.EqualFold(name, re.replayHeader) ||
		name != "" && len(name) == len(re.expiryHeader) && strings.EqualFold(name, re.expiryHeader)
}

// echoKey sends the key of a request back, if the program wants that.
func (re *responder) echoKey(h http.Header, r *http.Request) {
	for _, name := range re.echoed {
		if lines := r.Header[name]; len(lines) == 1 {
			if _, err := wire.ParseKey(lines[0]); err == nil {
				h[name] = []string{lines[0]}
			}
		}
	}
}

// isOwn reports whether the name is a spelling of a header that the guard sends and a
// handler must not change: a marker, or the echo of the key.
func (re *responder) isOwn(name string) bool {
	return re.isMarker(name) || slices.ContainsFunc(re.echoed, func(own string) bool {
		return strings.EqualFold(own, strings.TrimPrefix(name, http.TrailerPrefix))
	})
}

// unstoredProblem returns the response for an error of Finish.
func unstoredProblem(err error) *problem.Problem {
	switch {
	case errors.Is(err, ErrNotConfirmed):
		return problem.New(problem.NotConfirmed, "")
	case errors.Is(err, storage.ErrRolledBack):
		return problem.New(problem.RolledBack, "")
	default:
		return problem.New(problem.InProgress, "")
	}
}

// guardedWriter returns a problem writer that responds by the default writer when
// write panics. Status and body are buffered until write has returned.
func guardedWriter(write problem.Writer, observe func(context.Context, *event.Event)) problem.Writer {
	return func(w http.ResponseWriter, r *http.Request, p problem.Problem) {
		own := problemRecorder{header: w.Header()}
		if err := own.record(write, r, p); err != nil {
			observe(r.Context(), &event.Event{Result: event.CallbackPanicked, Code: p.Code, Err: err})
			problem.Write(w, r, p)
			return
		}
		wire.WriteResponse(w, own.status, own.body)
	}
}

// problemRecorder records the response of a problem.Writer.
type problemRecorder struct {
	header http.Header
	status int
	body   []byte
}

func (p *problemRecorder) Header() http.Header { return p.header }

func (p *problemRecorder) WriteHeader(status int) {
	if p.status == 0 {
		p.status = status
	}
}

func (p *problemRecorder) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	p.body = append(p.body, b...)
	return len(b), nil
}

// record runs write with p as the response writer.
func (p *problemRecorder) record(write problem.Writer, r *http.Request, about problem.Problem) (err error) {
	defer panicked.ToError("ProblemWriter", &err)
	write(p, r, about)
	if p.status == 0 {
		return errors.New("oncekey: the ProblemWriter wrote no status and no body")
	}
	return nil
}
