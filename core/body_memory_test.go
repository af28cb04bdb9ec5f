package core_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// allocatedBy returns the bytes that f allocates, garbage included, from empty pools:
// an upper bound of the memory that f holds at any time.
func allocatedBy(f func()) int64 {
	runtime.GC()
	runtime.GC() // the second collection empties sync.Pools
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// largeBody is a request body of a test about memory.
type largeBody struct {
	mediaType string
	text      []byte
	again     []byte // another spelling of the same content, or nil
}

// filled repeats a numbered piece until the text has the size.
func filled(size int, begin, end string, piece func(i int) string) []byte {
	var text bytes.Buffer
	text.Grow(size + 256)
	text.WriteString(begin)
	for i := 0; text.Len()+len(end) < size; i++ {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(piece(i))
	}
	text.WriteString(end)
	return text.Bytes()
}

const lineItem = `{"sku":"A-%07d","quantity":%d,"price":"12.50","options":{"size":"L","colour":"blue"}}`

func largeDocument(size int) largeBody {
	return largeBody{
		"application/json",
		filled(size, `{"request_id":"k","meta":{"b":1,"a":2},"timestamp":1,"items":[`, `]}`, func(i int) string { return fmt.Sprintf(lineItem, i, i%7) }),
		filled(size, `{"meta":{"a":2,"b":1},"request_id":"k", "timestamp":1,"items":[`, `]}`, func(i int) string { return fmt.Sprintf(lineItem, i, i%7) }),
	}
}

// largeMap is an object whose many members are out of order.
func largeMap(size int) largeBody {
	value := strings.Repeat("v", 200)
	return largeBody{"application/json", filled(size, `{`, `}`, func(i int) string { return fmt.Sprintf(`"m%07d":%q`, 9_000_000-i, value) }), nil}
}

func largeForm(size int) largeBody {
	const fields = 400
	value := strings.Repeat("v", size/fields-16)
	var text, again []string
	for i := range fields {
		text = append(text, fmt.Sprintf("f%05d=%s", fields-i, value))
		again = append(again, fmt.Sprintf("f%05d=%s", i+1, value))
	}
	return largeBody{"application/x-www-form-urlencoded", []byte(strings.Join(text, "&")), []byte(strings.Join(again, "&"))}
}

func largeUpload(size int) largeBody {
	content := bytes.Repeat([]byte("content "), size/8)
	write := func() (string, []byte) {
		var text bytes.Buffer
		w := multipart.NewWriter(&text)
		_ = w.WriteField("title", "holidays")
		file, _ := w.CreateFormFile("file", "holidays.tar")
		_, _ = file.Write(content)
		_ = w.Close()
		return w.FormDataContentType(), text.Bytes()
	}
	mediaType, text := write()
	return largeBody{mediaType, text, nil}
}

func (b largeBody) send(handler http.Handler, text []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/payments", bytes.NewReader(text))
	r.Header.Set("Authorization", "Bearer alice")
	r.Header.Set("Content-Type", b.mediaType)
	r.Header.Set(core.KeyHeader, "k")
	return testkit.Serve(handler, r)
}

// Case 87: a body of known length costs at most 2.5 times its length in memory, at a
// first request and at a replay. The test counts all allocated bytes, which is more
// than the bytes that are held at one time.
func TestBodyTakesBoundedMemory(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	const small = 256 << 10 // for everything that does not grow with the body
	for _, size := range []int{1 << 20, 5 << 20, 12 << 20} {
		for _, test := range []struct {
			name   string
			body   largeBody
			policy []policy.Option
		}{
			{"raw", largeBody{"application/octet-stream", bytes.Repeat([]byte{7}, size), nil}, nil},
			{"JSON", largeDocument(size), nil},
			{"JSON of one string", largeBody{"application/json", filled(size, `{"text":"`, `"}`, func(int) string { return strings.Repeat("v", 4<<10) }), nil}, nil},
			{"JSON out of order", largeMap(size), nil},
			{"JSON that ends too early", largeBody{"application/json", largeMap(size).text[:size-8], nil}, nil},
			{"JSON, ExcludeFields", largeDocument(size), []policy.Option{policy.ExcludeFields("timestamp", "items.*.price")}},
			{"JSON, IncludeFields", largeDocument(size), []policy.Option{policy.IncludeFields("meta", "items.*.sku")}},
			{"JSON, IncludeFields that are absent", largeDocument(size), []policy.Option{policy.IncludeFields("absent")}},
			{"form", largeForm(size), nil},
			{"form, ExcludeFields", largeForm(size), []policy.Option{policy.ExcludeFields("f00007")}},
			{"multipart", largeUpload(size), nil},
			{"multipart, ExcludeFields", largeUpload(size), []policy.Option{policy.ExcludeFields("file")}},
		} {
			t.Run(fmt.Sprintf("%d MiB of %s", size>>20, test.name), func(t *testing.T) {
				opts := append([]policy.Option{policy.MaxRequestBytes(1 << 30)}, test.policy...)
				s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
					if n, err := io.Copy(io.Discard, r.Body); n != int64(len(test.body.text)) || err != nil {
						t.Errorf("the handler reads %d bytes, %v", n, err)
					}
					created(w, r)
				}, opts...)
				within := func(name string, text []byte) *httptest.ResponseRecorder {
					t.Helper()
					var w *httptest.ResponseRecorder
					allocated := allocatedBy(func() { w = test.body.send(s.handler, text) })
					if ratio := float64(allocated) / float64(len(text)); allocated > int64(len(text))*5/2+small {
						t.Errorf("%s: %.2f times its length", name, ratio)
					} else {
						t.Logf("%s: %.2f times its length", name, ratio)
					}
					return w
				}
				wantFirst(t, within("first", test.body.text))
				wantReplay(t, within("replay", test.body.text))
				if test.body.again != nil {
					wantReplay(t, within("replay in another spelling", test.body.again))
				}
				if w := within("another payload", test.body.text[:len(test.body.text)-1]); w.Code != http.StatusUnprocessableEntity {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
			})
		}
	}
}

// memoryNow returns all bytes that were ever allocated, and after a collection those that are
// in use.
func memoryNow() (allocated, inUse int64) {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	allocated = int64(stats.TotalAlloc)
	runtime.GC()
	runtime.GC() // the second collection empties sync.Pools
	runtime.ReadMemStats(&stats)
	return allocated, int64(stats.HeapAlloc)
}

// Case 87: a client that announces a large body and does not send it costs little.
func TestAnnouncedBodyIsNotTrusted(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	const announced = 512 << 20
	s := newService(t, memstore.New(), created, policy.MaxRequestBytes(1<<30))
	for _, sent := range []int{0, 1, 4 << 10, 100 << 10, 1 << 20} {
		body := io.MultiReader(bytes.NewReader(make([]byte, sent)), iotest.ErrReader(io.ErrUnexpectedEOF))
		r := httptest.NewRequest(http.MethodPost, "/payments", body)
		r.Header = newPost(t.Context(), "k", payment).Header
		r.ContentLength = announced
		var w *httptest.ResponseRecorder
		allocated := allocatedBy(func() {
			w = testkit.Serve(s.handler, r)
		})
		wantCode(t, w, http.StatusBadRequest, problem.BodyUnreadable)
		if most := int64(128<<10 + 10*sent); allocated > most {
			t.Errorf("%d bytes of %d cost %d bytes of memory, want at most %d", sent, announced, allocated, most)
		}
	}
	s.wantRuns(t, 0)
}

// Case 87: a body of unknown length costs at most five times its length.
func TestBodyOfUnknownLength(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	s := newService(t, memstore.New(), created, policy.MaxRequestBytes(1<<30))
	for i, size := range []int{1 << 20, 1<<20 + 1, 3 << 20, 8<<20 + 1} {
		text := largeDocument(size).text
		for _, request := range []string{"first", "replay"} {
			r := httptest.NewRequest(http.MethodPost, "/payments", iotest.OneByteReader(bytes.NewReader(text)))
			r.Header = newPost(t.Context(), fmt.Sprint(i), payment).Header
			if r.ContentLength != -1 {
				t.Fatal("the length is known")
			}
			w := httptest.NewRecorder()
			if allocated := allocatedBy(func() { s.handler.ServeHTTP(w, r) }); allocated > 5*int64(len(text))+256<<10 {
				t.Errorf("%s of %d bytes: %.2f times its length", request, size, float64(allocated)/float64(len(text)))
			}
		}
	}
	s.wantRuns(t, 4)
}

// Case 87: a body of many tiny members costs a multiple of its length, which is bounded.
func TestHostileBodyTakesBoundedMemory(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	const size, most = 4 << 20, 16
	again := func(piece string) func(int) string { return func(int) string { return piece } }
	for name, text := range map[string][]byte{
		"the shortest members":  filled(size, `{`, `}`, again(`"b":0,"":0`)),
		"members in reverse":    filled(size, `{`, `}`, func(i int) string { return fmt.Sprintf(`"%06d":1`, 999_999-i) }),
		"names that are folded": filled(size, `{`, `}`, again(`"é":0,"":0`)),
		"names without UTF-8":   filled(size, `{`, `}`, again("\"\xff\xff\xff\":0,\"\":0")),
		"small objects":         filled(size, `[`, `]`, again(`{"b":0,"a":0}`)),
		"a nest of objects":     filled(size, `[`, `]`, again(strings.Repeat(`{"b":1,"a":`, 300)+`0`+strings.Repeat(`}`, 300))),
		"members at the end":    filled(size, `{"z":"`+strings.Repeat("z", size/2)+`",`, `}`, again(`"b":0,"":0`)),
		"members at the start":  append(filled(size/8, `{`, `,`, again(`"b":0,"":0`)), `"z":"`+strings.Repeat("z", size*7/8)+`"}`...),
	} {
		t.Run(name, func(t *testing.T) {
			body := largeBody{mediaType: "application/json"}
			s := newService(t, memstore.New(), created, policy.MaxRequestBytes(1<<30))
			for _, request := range []string{"first", "replay"} {
				allocated := allocatedBy(func() { body.send(s.handler, text) })
				if ratio := float64(allocated) / float64(len(text)); ratio > most {
					t.Errorf("%s: %.2f times its length, want at most %d", request, ratio, most)
				} else {
					t.Logf("%s: %.2f times its length", request, ratio)
				}
			}
			s.wantRuns(t, 1)
		})
	}
}

// Case 87: KeyField reads the body once more. The memory of the first pass is free
// before the second pass, and a handler runs beside its body alone.
func TestKeyFieldTakesBoundedMemory(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	for _, size := range []int{1 << 20, 5 << 20, 12 << 20} {
		body := largeDocument(size)
		var allocated, inUse, toScope, kept int64
		scope := func(r *http.Request) (string, error) { // between both passes
			now, used := memoryNow()
			toScope, kept = now-allocated, used-inUse
			allocated, _ = memoryNow()
			return bearer(r)
		}
		engine := engineFor(t, memstore.New(), core.ScopeBy(scope), core.WithObserver(discarded{}))
		held := int64(0)
		handler := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, used := memoryNow()
			held = used - inUse
			created(w, r)
		}), policy.KeyField("request_id"), policy.Required(true), policy.MaxRequestBytes(1<<30))
		const small = 256 << 10
		most := int64(size)*5/2 + small
		for _, request := range []string{"first", "replay"} {
			_, inUse = memoryNow()
			allocated, _ = memoryNow()
			w := body.send(handler, body.text)
			if w.Code != http.StatusCreated {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			now, _ := memoryNow()
			if peak := max(toScope, kept+now-allocated); peak > most {
				t.Errorf("%s of %d MiB: %.2f times its length", request, size>>20, float64(peak)/float64(size))
			}
			if kept > int64(size)*6/5+small || held > int64(size)*6/5+small {
				t.Errorf("%s of %d MiB: %.2f times its length is in use between the passes, %.2f in the handler",
					request, size>>20, float64(kept)/float64(size), float64(held)/float64(size))
			}
			runtime.KeepAlive(w)
		}
	}
}
