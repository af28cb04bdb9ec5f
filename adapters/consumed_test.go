package adapters_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/oncekey/oncekey/core/problem"
)

// Case 57: a guard that never saw the body cannot compare two payloads.
func TestBodyThatMiddlewareHasRead(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	readAll := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	for _, row := range []struct {
		name    string
		reading func(http.ResponseWriter, *http.Request)
		request []func(*http.Request)
	}{
		{name: "read", reading: readAll},
		{name: "read and replaced by none", reading: func(w http.ResponseWriter, r *http.Request) {
			readAll(w, r)
			r.Body = http.NoBody
		}},
		{name: "parsed as a form", reading: func(_ http.ResponseWriter, r *http.Request) { _ = r.ParseForm() }, request: []func(*http.Request){header("Content-Type", form)}},
		{name: "FormValue, and the length dropped", reading: func(_ http.ResponseWriter, r *http.Request) {
			_ = r.FormValue("amount")
			r.ContentLength = 0
		}, request: []func(*http.Request){header("Content-Type", form)}},
		{name: "decoded", reading: func(_ http.ResponseWriter, r *http.Request) {
			decoder := json.NewDecoder(r.Body)
			_ = decoder.Decode(new(any))
			_, _ = io.Copy(io.Discard, r.Body)
		}},
		{name: "chunked without a type", reading: readAll, request: []func(*http.Request){
			func(r *http.Request) { r.Header.Del("Content-Type") },
			func(r *http.Request) { r.TransferEncoding = []string{"chunked"} },
		}},
	} {
		for _, length := range []struct {
			name  string
			known bool
		}{{"with a length", true}, {"chunked", false}} {
			if length.known && row.name == "chunked without a type" {
				continue
			}
			t.Run(row.name+"/"+length.name, func(t *testing.T) {
				t.Parallel()
				changes := row.request
				if !length.known {
					changes = append(slices.Clone(changes), chunked)
				}
				onEveryRouter(t, func(t *testing.T, m mounting) {
					s := m.start(t, program{outside: []middleware{before(row.reading)}})
					s.refuses(post("/payments", "k", "amount=1", changes...), http.StatusBadRequest, problem.BodyUnreadable)
					s.refuses(post("/payments", "k", "amount=2", changes...), http.StatusBadRequest, problem.BodyUnreadable)
					s.claimed(0)
				})
			})
		}
	}
}

// Case 57: a missing body differs from a body that was read before.
func TestRequestWithoutABody(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*http.Request){
		"typed, of length zero":     func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 },
		"untyped, of no length":     func(r *http.Request) { r.Header.Del("Content-Type"); chunked(r) },
		"untyped, and none at all":  func(r *http.Request) { r.Header.Del("Content-Type"); r.Body = nil },
		"typed, decompressed to 0":  func(r *http.Request) { r.ContentLength = 0 },
		"asked about as a form":     func(r *http.Request) { _ = r.FormValue("amount") },
		"its query taken as a form": func(r *http.Request) { r.URL.RawQuery = "a=1"; _ = r.ParseForm() },
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{})
			s.runsAgain(post("/payments", "k", "", change))
			s.replays(post("/payments", "k", "", change))
		})
	}
}

// Case 57: a decompressing middleware leaves the compressed length, so the guard ignores
// lengths.
func TestLengthThatIsNotTheBodys(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int64{"too long": 1000, "too short": 3} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			decompressing := before(func(_ http.ResponseWriter, r *http.Request) { r.ContentLength = length })
			s := m.start(t, program{outside: []middleware{decompressing}})
			s.runsAgain(payment("k"))
			s.replays(payment("k"))
			s.refuses(post("/payments", "k", `{"amount":1}`), http.StatusUnprocessableEntity, problem.KeyReused)
		})
	}
}

func TestBodyThatMiddlewareHasPutBack(t *testing.T) {
	t.Parallel()
	peeking := before(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	})
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{outside: []middleware{peeking}})
		s.runsAgain(payment("k"))
		s.replays(payment("k"))
	})
}
