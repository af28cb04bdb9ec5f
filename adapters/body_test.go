package adapters_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// chunked sends the body without a length.
func chunked(r *http.Request) {
	r.ContentLength = -1
	r.Body = io.NopCloser(struct{ io.Reader }{r.Body})
}

func limited(limit int64) program {
	return program{policy: []policy.Option{policy.MaxRequestBytes(limit)}}
}

// Case 33
func TestBodyOverTheLimit(t *testing.T) {
	t.Parallel()
	limit := int64(len(amount))
	for _, row := range []struct {
		name   string
		body   string
		change func(*http.Request)
		status int
	}{
		{name: "at the limit", body: amount, status: http.StatusCreated},
		{name: "at the limit, chunked", body: amount, change: chunked, status: http.StatusCreated},
		{name: "over the limit by Content-Length", body: amount + " ", status: http.StatusRequestEntityTooLarge},
		{name: "over the limit, chunked", body: amount + " ", change: chunked, status: http.StatusRequestEntityTooLarge},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, limited(limit))
			request := post("/payments", "k", row.body)
			if row.change != nil {
				row.change(request)
			}
			if row.status == http.StatusCreated {
				s.runsAgain(request)
				return
			}
			s.refuses(request, row.status, problem.BodyTooLarge)
			s.claimed(0)
		})
	}
}

// endless is a body without an end. It counts the read bytes.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

func (e *endless) Close() error { return nil }

// Case 33
func TestEndlessBodyIsReadToTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 1 << 10
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, limited(limit))
		body := new(endless)
		s.refuses(payment("k", func(r *http.Request) { r.Body, r.ContentLength = body, -1 }),
			http.StatusRequestEntityTooLarge, problem.BodyTooLarge)
		if body.read > 4*limit {
			t.Errorf("%d bytes were read, the limit is %d", body.read, limit)
		}
	})
}

// The error of a body that was cut off may wrap io.EOF. Half a body runs no handler.
func TestBodyThatEndsInAWrappedEOF(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{})
		cut := io.MultiReader(strings.NewReader(amount[:len(amount)/2]), iotest.ErrReader(fmt.Errorf("decrypt: %w", io.EOF)))
		s.refuses(payment("k", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(cut), -1 }), http.StatusBadRequest, problem.BodyUnreadable)
		s.ran(0)
	})
}

// A length over the limit is refused before a byte is read.
func TestClaimedLengthIsBelieved(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{})
		body := new(endless)
		s.refuses(payment("k", func(r *http.Request) { r.Body, r.ContentLength = body, 1<<40 }),
			http.StatusRequestEntityTooLarge, problem.BodyTooLarge)
		testkit.Equal(t, body.read, 0, "bytes that were read")
	})
}

func TestHandlerReadsAnEqualBody(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty": "", "JSON": " {\"b\":1,\n\"a\":[]} ", "not text": "\x00\xff", "at the limit": strings.Repeat("x", 1<<20),
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			var read []byte
			var length int64
			s := m.start(t, program{handler: func(w http.ResponseWriter, r *http.Request) {
				read, _ = io.ReadAll(r.Body)
				length = r.ContentLength
				w.WriteHeader(http.StatusServiceUnavailable)
			}})
			untyped := post("/payments", "k", body, chunked)
			untyped.Header.Del("Content-Type") // an empty body of unknown length and with a type has been read before
			for _, request := range []*http.Request{post("/payments", "k", body), untyped} {
				s.do(request)
				if string(read) != body || length != request.ContentLength {
					t.Errorf("read %d bytes with length %d, want %d with %d", len(read), length, len(body), request.ContentLength)
				}
			}
		})
	}
}

// Equal payloads replay, and others are refused.
func TestPayload(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	for _, row := range []struct {
		name          string
		first, second string
		contentType   string
		same          bool
	}{
		{name: "members in another order", first: `{"a":1,"b":{"c":2,"d":3}}`, second: `{"b":{"d":3,"c":2},"a":1}`, same: true},
		{name: "white space", first: `{"a":[1,2]}`, second: " {\n\t\"a\" : [ 1 , 2 ] }\r\n", same: true},
		{name: "other amount", first: `{"amount":1999}`, second: `{"amount":4999}`},
		{name: "elements in another order", first: `[1,2]`, second: `[2,1]`},
		{name: "number or string", first: `{"a":1}`, second: `{"a":"1"}`},
		{name: "large numbers", first: `{"a":9007199254740993}`, second: `{"a":9007199254740992}`},
		{name: "no body", first: "", second: "{}"},
		{name: "excluded member", first: `{"a":1,"nonce":"x"}`, second: `{"a":1,"nonce":"y"}`, same: true},
		{name: "excluded member missing", first: `{"a":1,"nonce":"x"}`, second: `{"a":1}`, same: true},
		{name: "excluded member inside", first: `{"a":[{"nonce":"x"}]}`, second: `{"a":[{"nonce":"y"}]}`, same: true},
		{name: "excluded path", first: `{"meta":{"at":1}}`, second: `{"meta":{"at":2}}`, same: true},
		{name: "excluded path elsewhere", first: `{"at":1}`, second: `{"at":2}`},
		{name: "excluded form field", contentType: form, first: "a=1&nonce=x", second: "nonce=y&a=1", same: true},
		{name: "form field", contentType: form, first: "a=1&nonce=x", second: "a=2&nonce=x"},
		// Case 31
		{name: "duplicate member", first: `{"amount":1}`, second: `{"amount":1,"amount":2}`},
		{name: "duplicate member in another order", first: `{"amount":1,"amount":2}`, second: `{"amount":2,"amount":1}`},
		{name: "case-variant duplicate", first: `{"amount":1}`, second: `{"amount":1,"Amount":2}`},
		{name: "case variant", first: `{"amount":1}`, second: `{"AMOUNT":1}`},
		{name: "duplicates of an excluded member", first: `{"a":1}`, second: `{"Nonce":1,"a":1,"nonce":2,"NONCE":3}`, same: true},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{policy: []policy.Option{policy.ExcludeFields("nonce", "meta.at")}})
			typed := header("Content-Type", "application/json")
			if row.contentType != "" {
				typed = header("Content-Type", row.contentType)
			}
			s.do(post("/payments", "k", row.first, typed))
			second := post("/payments", "k", row.second, typed)
			if row.same {
				s.replays(second)
			} else {
				s.refuses(second, http.StatusUnprocessableEntity, problem.KeyReused)
			}
			s.ran(1)
		})
	}
}

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
			_ = json.NewDecoder(r.Body).Decode(new(any))
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

// ShouldBindBodyWith reads the body, and gin keeps its bytes for the next one. Middleware may
// have put another body there since.
func TestBodyThatGinHasKept(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]string{"and nothing else": "", "and replaced": "other"} {
		onCase(t, name, ginRouters, func(t *testing.T, m mounting) {
			reading := func(c *gin.Context) {
				logged, _ := io.ReadAll(c.Request.Body)
				_ = c.Request.Body.Close()
				c.Request.Body = io.NopCloser(bytes.NewBuffer(logged))
				_ = c.ShouldBindBodyWithJSON(new(any))
				if later != "" {
					c.Request.Body = io.NopCloser(strings.NewReader(later))
				}
			}
			s := m.start(t, program{outside: []middleware{{gin: reading}}, handler: func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(w, r.Body)
			}})
			s.gets(s.runsAgain(post("/payments", "k", `[1]`)), http.StatusOK, cmp.Or(later, `[1]`))
			s.replays(post("/payments", "k", `[ 1]`, chunked))
			if later == "" {
				s.refuses(post("/payments", "k", `[2]`), http.StatusUnprocessableEntity, problem.KeyReused)
			}
		})
	}
}
