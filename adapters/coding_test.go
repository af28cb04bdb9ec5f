package adapters_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	chimiddleware "github.com/go-chi/chi/v5/middleware"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// compressing is the compression middleware of each router.
var compressing = middleware{
	std: chimiddleware.Compress(5, "application/json", "application/problem+json", "text/plain"),
	gin: func(c *gin.Context) {
		if !strings.Contains(c.GetHeader("Accept-Encoding"), "gzip") {
			c.Next()
			return
		}
		compressed := gzip.NewWriter(c.Writer)
		defer compressed.Close()
		c.Header("Content-Encoding", "gzip")
		c.Writer = &ginCompressor{c.Writer, compressed}
		c.Next()
	},
}

type ginCompressor struct {
	gin.ResponseWriter
	compressed *gzip.Writer
}

func (w *ginCompressor) Write(p []byte) (int, error)       { return w.compressed.Write(p) }
func (w *ginCompressor) WriteString(s string) (int, error) { return w.compressed.Write([]byte(s)) }

// readable is the body as a client reads it that accepts these codings.
func readable(t *testing.T, answer *httptest.ResponseRecorder, accepts string) string {
	t.Helper()
	body := io.Reader(answer.Body)
	if coding := answer.Result().Header.Get("Content-Encoding"); coding == "gzip" && strings.Contains(accepts, "gzip") && !strings.Contains(accepts, "q=0") {
		decompressed, err := gzip.NewReader(bytes.NewReader(answer.Body.Bytes()))
		if err != nil {
			t.Fatalf("%v in %q", err, answer.Body)
		}
		body = decompressed
	} else if coding != "" {
		t.Errorf("the coding is %q, and the client accepts %q", coding, accepts)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func accepting(codings string) func(*http.Request) {
	return func(r *http.Request) {
		if codings != "" {
			r.Header.Set("Accept-Encoding", codings)
		}
	}
}

// Case 51: with compression inside the guard no replay is in a coding that its client does
// not accept. Each client reads the same text.
func TestCompressionInside(t *testing.T) {
	t.Parallel()
	codings := []string{"gzip", "", "identity", "gzip;q=0", "deflate", "*"}
	body := strings.Repeat(`{"id":17}`, 100)
	paying := then(set("Content-Type", "application/json"), answering(201), write(body))
	for _, first := range codings {
		onCase(t, first, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{inside: []middleware{compressing}, handler: paying})
			testkit.Equal(t, readable(t, s.do(payment("k", accepting(first))), first), body, "the body")
			for _, again := range codings {
				testkit.Equal(t, readable(t, s.replays(payment("k", accepting(again))), again), body, "the body after %q, %q", first, again)
			}
		})
	}
}

// Case 51: middleware outside the guard sees the request's own header before and
// after its handler.
func TestAcceptEncodingStaysOutside(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		var before, inside, after string
		watching := middleware{std: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				before = r.Header.Get("Accept-Encoding")
				next.ServeHTTP(w, r)
				after = r.Header.Get("Accept-Encoding")
			})
		}}
		s := m.start(t, program{outside: []middleware{watching}, handler: func(w http.ResponseWriter, r *http.Request) {
			inside = r.Header.Get("Accept-Encoding") + r.Header.Get("User")
			created(w, r)
		}})
		s.do(payment("k", accepting("gzip"), as("alice")))
		if before != "gzip" || inside != "alice" || after != "gzip" {
			t.Errorf("seen %q before, %q inside and %q after", before, inside, after)
		}
	})
}

// Case 51: with compression outside the guard everything is readable and equal:
// the first response, its replay, and problems.
func TestCompressionOutside(t *testing.T) {
	t.Parallel()
	outside := middleware{std: compressing.std} // on gin it is around the engine
	paying := then(set("Content-Type", "application/json"), answering(201), write(strings.Repeat(`{"id":17}`, 100)))
	for _, accepts := range []string{"gzip", "", "identity"} {
		onCase(t, accepts, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{outside: []middleware{outside}, handler: paying, policy: []policy.Option{policy.MaxRequestBytes(100)}})
			plain := m.start(t, program{handler: paying, policy: []policy.Option{policy.MaxRequestBytes(100)}})
			for _, request := range []func() *http.Request{
				func() *http.Request { return payment("k", accepting(accepts)) },
				func() *http.Request { return payment("k", accepting(accepts)) }, // the replay
				func() *http.Request { return post("/payments", "k", "{}", accepting(accepts)) },
				func() *http.Request { return payment("a,b", accepting(accepts)) },
				func() *http.Request { return payment("k", accepting(accepts), withoutKey) },
				func() *http.Request { return post("/payments", "k", strings.Repeat("x", 101), accepting(accepts)) },
			} {
				got, want := s.do(request()), plain.do(request())
				if text := readable(t, got, accepts); text != want.Body.String() || got.Code != want.Code {
					t.Errorf("got %d %q, want %d %q", got.Code, text, want.Code, want.Body)
				}
				if accepts == "gzip" && got.Header().Get("Content-Encoding") != "gzip" {
					t.Errorf("%d was not compressed", got.Code)
				}
				testkit.Equal(t, isReplay(got), isReplay(want), "the marker")
			}
			if got := readable(t, s.replays(payment("k")), ""); got != plain.replays(payment("k")).Body.String() {
				t.Errorf("a client that accepts no coding got %q", got)
			}
		})
	}
}

// typing is the writer of middleware that finds a body's type at the first Write, as gorilla's CompressHandler.
type typing struct {
	http.ResponseWriter
	began bool
}

func (w *typing) WriteHeader(status int) {
	w.began = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *typing) Write(p []byte) (int, error) {
	if !w.began {
		w.Header().Set("Content-Type", http.DetectContentType(p))
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// transparent is the writer of middleware that does not change the response.
type transparent struct{ http.ResponseWriter }

func (w transparent) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// The status 200 of a body without a type is not sent by itself, so that middleware outside finds the type. gin's
// NoRoute has another status before it, also behind middleware of net/http.
func TestStatusThatGoesWithoutSaying(t *testing.T) {
	t.Parallel()
	engine, err := core.New(memstore.New(), core.SharedScope)
	testkit.Must(t, err)
	page := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }))
	r := gin.New()
	r.NoRoute(gin.WrapF(func(w http.ResponseWriter, r *http.Request) { page.ServeHTTP(transparent{w}, r) }))
	for name, handler := range map[string]http.Handler{
		"typing":  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { page.ServeHTTP(&typing{ResponseWriter: w}, r) }),
		"NoRoute": r,
	} {
		for range 2 {
			w := testkit.Serve(handler, post("/pages", name, ""))
			if w.Code != http.StatusOK || w.Body.String() != "<html>" || name == "typing" && w.Result().Header.Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("%s: got %d %v %q", name, w.Code, w.Result().Header, w.Body)
			}
		}
	}
}

// Case 61: the files of a multipart form are removed after the handler, for every outcome,
// and also without a lease.
func TestFilesOfAForm(t *testing.T) {
	t.Parallel()
	const boundary = "x"
	form := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" + strings.Repeat("x", 100) + "\r\n--x--\r\n"
	for _, row := range []struct {
		name   string
		end    http.HandlerFunc
		policy []policy.Option
		store  storage.Store
	}{
		{name: "returns", end: created},
		{name: "panics", end: panicking},
		{name: "aborts", end: aborting},
		{name: "streams", end: then(created, flush)},
		{name: "runs unprotected", end: created, policy: []policy.Option{policy.OnStoreError(policy.FailOpen)}, store: failing(storage.ErrStoreFull)},
		{name: "is observed", end: created, policy: []policy.Option{policy.ObserveOnly(true)}},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			var parsed *http.Request
			s := m.start(t, program{store: row.store, policy: row.policy, handler: func(w http.ResponseWriter, r *http.Request) {
				if err := r.ParseMultipartForm(1); err != nil {
					t.Error(err)
				}
				parsed = r
				if file, err := r.MultipartForm.File["file"][0].Open(); err != nil {
					t.Error(err)
				} else {
					file.Close()
				}
				row.end(w, r)
			}})
			s.try(post("/payments", "k", form, header("Content-Type", "multipart/form-data; boundary="+boundary)))
			s.ran(1)
			if file, err := parsed.MultipartForm.File["file"][0].Open(); err == nil {
				file.Close()
				t.Error("the file is still there")
			}
		})
	}
}
