package main

import (
	"bytes"
	"cmp"
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
	switch {
	case errors.Is(err, errRedirected):
		return 0, usageError{err}
	case err != nil:
		return 0, unreachableError{err}
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	if err != nil {
		return 0, unreachableError{fmt.Errorf("%s: %w", p.base, err)}
	}
	isJSON := strings.HasPrefix(reply.Header.Get("Content-Type"), "application/json")
	switch {
	case !isJSON && reply.StatusCode >= http.StatusInternalServerError: // of a proxy
		return 0, unreachableError{fmt.Errorf("%s responds %s", p.base, reply.Status)}
	case !isJSON:
		return 0, usage("%s responds %s without JSON: give --url of an inspector page", p.base, reply.Status)
	}
	if fault := new(inspector.Fault); json.Unmarshal(body, fault) == nil && fault.Title != "" {
		return 0, faultOf(fault)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return 0, fmt.Errorf("%s: %w", p.base, err)
	}
	return reply.StatusCode, nil
}

// pageFaultError is a page's fault as an error of several lines.
type pageFaultError struct{ lines []string }

func (f *pageFaultError) Error() string { return strings.Join(f.lines, "\n") }

// faultOf returns a page's fault as an error with the right exit code.
func faultOf(f *inspector.Fault) error {
	fault := &pageFaultError{[]string{f.Title + ": " + f.Detail}}
	if f.Cause != "" {
		fault.lines = append(fault.lines, "cause: "+f.Cause)
	}
	if f.Advice != "" {
		fault.lines = append(fault.lines, f.Advice)
	}
	switch f.Status {
	case http.StatusServiceUnavailable:
		return unreachableError{fault}
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return usageError{fault}
	default:
		return fault
	}
}

// errRedirected ends a request at a redirect that is not followed.
var errRedirected = errors.New("the page redirects to another place: give that as --url if it is the page's")

// samePlace allows a redirect to the same scheme, host and port, and one from http to https
// of the same host under the usual ports. No other place gets the token, or any request.
func samePlace(next *http.Request, before []*http.Request) error {
	const most = 10
	from, to := before[0].URL, next.URL
	same := to.Scheme == from.Scheme && port(to) == port(from)
	better := from.Scheme == "http" && to.Scheme == "https" && port(from) == "80" && port(to) == "443"
	if len(before) >= most || !strings.EqualFold(from.Hostname(), to.Hostname()) || !same && !better {
		return fmt.Errorf("%w: %s://%s", errRedirected, to.Scheme, to.Host)
	}
	return nil
}

// port is that of a URL, or its scheme's.
func port(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
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
