package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/oncekey/oncekey/adapters/inspector"
)

// page is an inspector page, asked for JSON.
type page struct {
	client *http.Client
	base   *url.URL
	header http.Header
}

// maxReply bounds a reply of a page.
const maxReply = 64 << 20

func (p *page) get(ctx context.Context, path string, query url.Values, into any) (status int, err error) {
	return p.ask(ctx, http.MethodGet, path, query, nil, into)
}

func (p *page) post(ctx context.Context, path string, form url.Values, into any) (status int, err error) {
	return p.ask(ctx, http.MethodPost, path, nil, form, into)
}

// ask returns the status of a reply that is of the kind of into, and an error for any other
// reply.
func (p *page) ask(ctx context.Context, method, path string, query, form url.Values, into any) (status int, err error) {
	address := p.base.ResolveReference(&url.URL{Path: path}) // JoinPath would remove the last slash, and a redirect can lose the query
	address.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, address.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return 0, err
	}
	maps.Copy(r.Header, p.header)
	r.Header.Set("Accept", "application/json")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	reply, err := p.client.Do(r)
	if err != nil {
		return 0, awayError{err}
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	if err != nil {
		return 0, awayError{err}
	}
	if !strings.HasPrefix(reply.Header.Get("Content-Type"), "application/json") {
		return 0, usage("%s responds %s without JSON: give --url of an inspector page", p.base.Redacted(), reply.Status)
	}
	if fault := new(inspector.Fault); json.Unmarshal(body, fault) == nil && fault.Title != "" {
		return 0, faultOf(fault)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return 0, fmt.Errorf("%s: %w", p.base.Redacted(), err)
	}
	return reply.StatusCode, nil
}

// faultOf returns a page's fault as an error with the right exit code.
func faultOf(f *inspector.Fault) error {
	text := f.Title + ": " + f.Detail
	if f.Cause != "" {
		text += "\n  cause: " + f.Cause
	}
	if f.Advice != "" {
		text += "\n  " + f.Advice
	}
	switch f.Status {
	case http.StatusServiceUnavailable:
		return awayError{errors.New(text)}
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return usageError{errors.New(text)}
	default:
		return errors.New(text)
	}
}

// inProcess is the transport to a page in this process.
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &reply{header: make(http.Header), status: http.StatusOK}
	r = r.Clone(r.Context())
	r.RequestURI = r.URL.RequestURI()
	p.ServeHTTP(w, r)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// reply is the response of a page in this process.
type reply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *reply) Header() http.Header                  { return w.header }
func (w *reply) WriteHeader(status int)               { w.status = status }
func (w *reply) Write(text []byte) (n int, err error) { return w.body.Write(text) }
