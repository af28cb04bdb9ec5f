package core

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// WithDocs names the page of your API's documentation that explains idempotency keys.
// Every problem then has the page in a Link header, with the relation describedby, and
// as its type, with the problem's code as the fragment. Give an absolute URL without a
// fragment. Default: no Link, and the type is a page of this project.
//
//	core.WithDocs("https://docs.example.com/idempotency")
func WithDocs(page string) Option {
	return func(e *Engine) error {
		parsed, err := url.Parse(page)
		if err != nil || !parsed.IsAbs() || parsed.Host == "" || strings.ContainsAny(page, "#<>\" \t") {
			return fmt.Errorf("oncekey: WithDocs is given %q: give an absolute URL without a fragment, such as https://docs.example.com/idempotency", page)
		}
		e.docs = page
		return nil
	}
}

// WithOnReplay calls change before each replay is written. change gets the header of
// the response, which it may change, the client's request and the stored record, which
// it must not change. The replay header is set afterwards. If change panics, the replay
// is sent with the header as it is, and the event is callback_panicked. change must be
// safe for concurrent use.
func WithOnReplay(change func(header http.Header, r *http.Request, record *storage.Record)) Option {
	return func(e *Engine) error {
		if change == nil {
			return errors.New("oncekey: WithOnReplay is given nil: give a function, or leave the option out")
		}
		e.onReplay = change
		return nil
	}
}

// changeReplay calls the function of WithOnReplay.
func (e *Engine) changeReplay(h http.Header, r *http.Request, a *admission, record *storage.Record) {
	defer func() {
		if err := panicOf("OnReplay", recover()); err != nil {
			e.report(r.Context(), a, event.Event{Result: event.CallbackPanicked, Err: err})
		}
	}()
	e.onReplay(h, r, record)
}

// describe sets the header fields of a problem, and names the page of WithDocs.
func (e *Engine) describe(h http.Header, p *problem.Problem) {
	p.SetHeader(h)
	if e.docs != "" {
		p.Type = e.docs + "#" + p.Code
		h.Add("Link", "<"+e.docs+`>; rel="describedby"`)
	}
}
