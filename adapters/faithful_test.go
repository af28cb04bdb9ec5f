package adapters_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// writing is a way to write a response.
type writing struct {
	name    string
	method  string // default POST
	outside []middleware
	handler http.HandlerFunc
	streams bool // the response streams: no replay
	notGin  bool // gin's own writer differs
	http1   bool // HTTP/2 differs
}

func (row writing) program() program {
	method := http.MethodPost
	if row.method != "" {
		method = row.method
	}
	return program{method: method, outside: row.outside, handler: row.handler, policy: []policy.Option{
		policy.Methods(method), policy.MaxResponseBytes(keptBytes),
	}}
}

// keptBytes bounds the stored responses of these tests.
const keptBytes = 8 << 10

// Case 28 and others: a guarded handler and an unguarded handler give equal responses. A
// replay differs from the first response only by the marker.
func TestFaithfulness(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol.name, func(t *testing.T) {
			t.Parallel()
			for _, row := range writings {
				if row.http1 && protocol.http2 {
					continue
				}
				onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
					if m.isGin() && row.notGin {
						t.Skip("see TestGinSwallowsInformationalResponses")
					}
					row.test(t, m, protocol.http2)
				})
			}
		})
	}
}

func (row writing) test(t *testing.T, m mounting, http2 bool) {
	r := row.program()
	s := m.start(t, r)
	guarded := serve(t, s, http2)
	bare := serve(t, m.bare(r), http2).send(r.method)

	first := guarded.send(r.method)
	equalSeen(t, "first answer against the bare handler's", first, bare)
	retry := guarded.send(r.method)
	if row.streams {
		if retry.Status != http.StatusConflict || !strings.Contains(retry.Body, problem.NotReplayable) {
			t.Errorf("the retry got %d %s, want 409 not_replayable", retry.Status, retry.Body)
		}
	} else {
		equalSeen(t, "replay against the first answer", retry, first.marked())
	}
	s.ran(1)
}

// write makes a handler that writes a body.
func write(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
}

// set makes a handler that sets a header to values.
func set(name string, values ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Header()[name] = values }
}

// del makes a handler that deletes a header.
func del(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Header().Del(name) }
}

func flush(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }

// emptyWrite writes no bytes, which every status allows.
func emptyWrite(w http.ResponseWriter, _ *http.Request) {
	if n, err := w.Write(nil); n != 0 || err != nil {
		panic(err)
	}
	if n, err := io.WriteString(w, ""); n != 0 || err != nil {
		panic(err)
	}
}

// copied writes through io.Copy, which looks for io.ReaderFrom.
func copied(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, io.LimitReader(strings.NewReader(body), 1<<20))
	}
}

var writings = []writing{
	{name: "201 with Location", handler: created},
	{name: "implicit 200", handler: write("hello")},
	{name: "nothing written", handler: func(http.ResponseWriter, *http.Request) {}},
	{name: "empty write", handler: write("")},
	{name: "header and nothing written", handler: set("X-Made", "yes")},
	{name: "202 without a body", handler: answering(202)},
	{name: "204", handler: answering(204)},
	{name: "204 with a body that is not allowed", handler: then(answering(204), write("no"))},
	{name: "204 with an empty write", handler: then(answering(204), emptyWrite), http1: true}, // Case 60: HTTP/2's writer is stricter
	{name: "304 with an empty write", handler: then(answering(304), emptyWrite), http1: true},
	{name: "304", handler: then(set("Etag", `"v1"`), answering(304))},
	{name: "303 redirect", handler: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/payments/17", http.StatusSeeOther) }},
	{name: "http.Error 422", handler: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnprocessableEntity) }},
	{name: "status without a name", handler: then(answering(299), write("ok"))},
	{name: "HEAD", method: http.MethodHead, handler: then(set("Content-Length", "5"), set("X-Made", "yes"))},
	{name: "HEAD with a body", method: http.MethodHead, handler: write("hello")},
	{name: "PATCH", method: http.MethodPatch, handler: created},

	{name: "values in order", handler: then(set("Link", "<b>", "<a>", "<b>"), set("Www-Authenticate", "B", "A"), answering(403))},
	{name: "a name as it was spelled", handler: then(set("x-REQUEST-cost", "17"), created)},
	{name: "an empty value", handler: then(set("X-Empty", ""), created)},
	{name: "tab and Latin-1 in a value", handler: then(set("X-Text", "a\tb caf\xe9"), created)},
	{name: "a name that is not valid", handler: then(set("X Made", "yes"), created)},
	{name: "header changes after WriteHeader", handler: then(created, set("X-Late", "yes"), set("Location", "/late"))},
	{name: "header changes after Write", handler: then(write("hello"), set("X-Late", "yes"))},
	{name: "header values appended to after WriteHeader", handler: appendingLate},
	{name: "cookies", handler: then(set("Set-Cookie", "a=1", "b=2"), created)},

	{name: "second WriteHeader", handler: then(write("x"), answering(202), answering(500))},
	{name: "WriteHeader after Write", handler: then(write("hello"), answering(500))},
	{name: "invalid WriteHeader after Write", handler: then(write("hello"), answering(0))},
	{name: "WriteString", handler: then(answering(201), write("hello"), write(", again"))},
	{name: "io.Copy after WriteHeader", handler: then(answering(201), copied("hello"))},
	{name: "io.Copy at once", handler: copied("<html>")},
	{name: "io.ReaderFrom", handler: readingFrom},

	{name: "sniffed HTML", handler: write("<!doctype html><p>hello")},
	{name: "sniffed in two writes", handler: then(write("<!doctype "), write("html>"))},
	{name: "sniffed JSON is text", handler: write(`{"id":17}`)},
	{name: "sniffing switched off", handler: then(set("Content-Type"), write("<html>"))},
	{name: "Content-Type of its own", handler: then(set("Content-Type", "text/csv"), write("a,b"))},
	{name: "sniffed without the outer Content-Type", outside: []middleware{before(set("Content-Type", "text/csv"))}, handler: then(del("Content-Type"), write("<html>"))},
	{name: "Content-Encoding, not sniffed", handler: then(set("Content-Encoding", "br"), write("<html>"))},

	{name: "Content-Length of its own", handler: then(set("Content-Length", "5"), write("hello"))},
	// net/http's HTTP/2 server sends the excess, and its client cuts the response.
	{name: "Content-Length, and more is written", handler: then(set("Content-Length", "5"), write("hello"), write(", world")), http1: true},
	// Case 58: net/http counts attempted bytes, so after a write that was too long no byte fits.
	{name: "Content-Length, and too much at once", handler: then(set("Content-Length", "5"), write("hello, world"), write("hello")), streams: true, http1: true},
	{name: "Content-Length, and nothing written", handler: then(set("Content-Length", "5"), answering(201)), streams: true},
	{name: "Content-Length, and too little", handler: then(set("Content-Length", "5"), answering(201), write("he")), streams: true},
	{name: "Content-Length of a 304", handler: then(set("Content-Length", "5"), answering(304))},
	{name: "Content-Length that is none", handler: then(set("Content-Length", "five"), created), http1: true},
	{name: "a body of two buffers", handler: write(strings.Repeat("x", 4096))},
	{name: "many small writes", handler: then(write(strings.Repeat("a", 2000)), write(strings.Repeat("b", 2000)), write("c"))},
	{name: "body just below MaxResponseBytes", handler: write(strings.Repeat("x", keptBytes-1))},
	{name: "body at MaxResponseBytes", handler: write(strings.Repeat("x", keptBytes))},
	{name: "body above MaxResponseBytes", handler: write(strings.Repeat("x", keptBytes+1)), streams: true},
	{name: "body above MaxResponseBytes in pieces", handler: then(set("X-Made", "yes"), answering(201), write(strings.Repeat("x", keptBytes)), write("y"), write("z")), streams: true},
	{name: "body above MaxResponseBytes by io.Copy", handler: copied(strings.Repeat("x", 3*keptBytes)), streams: true},
	{name: "header above MaxResponseBytes", handler: then(set("X-Large", strings.Repeat("x", keptBytes)), created), streams: true},

	{name: "flush, then write", handler: then(flush, write("hello")), streams: true},
	{name: "write, then flush", handler: then(write("hello"), flush), streams: true},
	{name: "WriteHeader, then flush", handler: then(set("X-Made", "yes"), answering(201), flush), streams: true},
	{name: "flush between writes", handler: then(created, flush, write("more"), flush, copied("even more")), streams: true}, //nolint:gocritic // twice on purpose
	{name: "header changes after flush", handler: then(flush, set("X-Late", "yes"), write("hello")), streams: true},
	{name: "second WriteHeader after flush", handler: then(created, flush, answering(500)), streams: true},
	{name: "Flusher", handler: func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, streams: true},
	{name: "deadlines", handler: then(deadlines, created)},

	{name: "trailers announced", handler: then(set("Trailer", "X-Sum, X-Count"), write("hello"), set("X-Sum", "17"), set("X-Count", "1", "2"))},
	{name: "trailers announced, one is missing", handler: then(set("Trailer", "X-Sum", "X-Count"), created, set("X-Sum", "17"))},
	{name: "trailers announced, streamed", handler: then(set("Trailer", "X-Sum"), write("hello"), flush, set("X-Sum", "17")), streams: true},
	{name: "trailers by prefix", handler: then(write(strings.Repeat("x", 4096)), set(http.TrailerPrefix+"X-Sum", "17"))},
	{name: "trailers by prefix before the stream", handler: then(set(http.TrailerPrefix+"X-Sum", "17"), flush, write("hello")), streams: true},
	{name: "trailers by prefix, and no body", handler: then(set(http.TrailerPrefix+"Grpc-Status", "14"), flush), streams: true},
	{name: "trailers by prefix before a large body", handler: then(set(http.TrailerPrefix+"X-Sum", "17"), write(strings.Repeat("x", 2<<20))), streams: true},
	{name: "trailers by prefix, streamed", handler: then(flush, write("hello"), set(http.TrailerPrefix+"X-Sum", "17")), streams: true},

	{name: "103 Early Hints", handler: then(set("Link", "</a.css>"), answering(103), set("Link", "</b.css>"), answering(103), set("Link"), created), notGin: true}, //nolint:gocritic // twice on purpose
	{name: "103 Early Hints, and the same header in the end", handler: then(set("Link", "</a.css>"), answering(103), created), notGin: true},
	{name: "103 Early Hints, and nothing else", handler: answering(103), notGin: true},
}

// appendingLate changes the header's own slices when it is too late.
func appendingLate(w http.ResponseWriter, r *http.Request) {
	w.Header()["Link"] = append(make([]string, 0, 4), "<a>", "<b>")
	created(w, r)
	w.Header()["Link"][0] = "<late>"
	w.Header().Add("Link", "<later>")
}

func readingFrom(w http.ResponseWriter, _ *http.Request) {
	if from, ok := w.(io.ReaderFrom); ok {
		_, _ = from.ReadFrom(strings.NewReader("hello"))
		return
	}
	_, _ = io.Copy(w, strings.NewReader("hello"))
}

func deadlines(w http.ResponseWriter, _ *http.Request) {
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		panic(err)
	}
	if err := control.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		panic(err)
	}
	if err := control.EnableFullDuplex(); err != nil {
		panic(err)
	}
}
