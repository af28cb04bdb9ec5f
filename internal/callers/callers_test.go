package callers_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/callers"
	"github.com/oncekey/oncekey/internal/testkit"
)

// placed stands for a function that wants to know who calls it.
func placed() string { return callers.Place() }

func TestPlace(t *testing.T) {
	t.Parallel()
	_, _, line, _ := runtime.Caller(0)
	testkit.Equal(t, placed(), "callers/callers_test.go:"+strconv.Itoa(line+1), "placed()")
	place := make(chan string)
	go func() { place <- callers.Place() }()
	if got := <-place; got == "" {
		t.Error("a goroutine's first function has no place")
	}
}

// deferring looks at the stack in a function that is deferred behind work.
func deferring(outermost uintptr, work func()) (panicking bool) {
	defer func() { _ = recover() }()
	defer func() { panicking = nested(outermost) }()
	work()
	return false
}

func nested(outermost uintptr) bool { return callers.Panic(outermost) }

func TestPanic(t *testing.T) {
	t.Parallel()
	var empty map[string]int
	var nothing *int
	for name, work := range map[string]func(){
		"a value":       func() { panic("value") },
		"nil":           func() { panic(nil) },
		"the runtime's": func() { empty["a"] = 1 },
		"a signal's":    func() { *nothing = 1 },
		"an index":      func() { _ = []int{}[len(empty)] },
		"a second one":  func() { defer panic("second"); panic("first") },
		"a handler's":   func() { panic(http.ErrAbortHandler) },
	} {
		if !deferring(0, work) {
			t.Errorf("%s is not seen", name)
		}
	}
	if deferring(0, func() {}) || callers.Panic(0) {
		t.Error("a panic is seen where none is")
	}
	if deferring(0, func() {
		defer func() { _ = recover() }()
		panic("ended")
	}) {
		t.Error("a panic is seen that has ended")
	}
	exited := make(chan bool)
	go func() {
		defer func() { exited <- callers.Panic(0) }()
		runtime.Goexit()
	}()
	if <-exited {
		t.Error("the end of a goroutine is a panic")
	}
}

// calling calls look. The compiler does not inline a function that defers.
func calling(look func() bool) bool {
	defer func() { _ = recover() }()
	return look()
}

func TestWithin(t *testing.T) {
	t.Parallel()
	function := callers.Entry(calling)
	within := func() bool { return callers.Within(0, callers.Entry(deferring), function) }
	if !calling(within) || within() {
		t.Errorf("within: %t, outside: %t", calling(within), within())
	}
	elsewhere := make(chan bool)
	if calling(func() bool { go func() { elsewhere <- within() }(); return <-elsewhere }) {
		t.Error("the caller of another goroutine is found")
	}
}

// outermost is a function in which a search of the stack ends.
func outermost(look func() bool) (found bool) {
	defer func() { _ = recover() }()
	found = look()
	return found
}

// A search ends at a function by its entry: a panic outside of it does not count.
func TestSearchEnds(t *testing.T) {
	t.Parallel()
	end := callers.Entry(outermost)
	within, beyond := true, false
	func() {
		defer func() { _ = recover() }()
		defer func() {
			within = outermost(func() bool { return callers.Panic(end) })
			beyond = outermost(func() bool { return callers.Panic(0) })
		}()
		panic("outside")
	}()
	if within || !beyond {
		t.Errorf("a panic outside is seen: %v; without an end: %v", within, beyond)
	}
	inside := outermost(func() bool { return deferring(end, func() { panic("inside") }) })
	if !inside {
		t.Error("a panic inside is not seen")
	}
}

// flushed notes for each flush whether a proxy makes it.
type flushed struct {
	*httptest.ResponseRecorder
	byProxy []bool
}

func (f *flushed) FlushError() error {
	f.byProxy = append(f.byProxy, callers.ReverseProxy(0))
	return nil
}

type upstream func() *http.Response

func (u upstream) RoundTrip(*http.Request) (*http.Response, error) { return u(), nil }

// A proxy flushes a response of unknown length at once, and with a FlushInterval later, on
// a goroutine of its own. The test fails where net/http/httputil names its functions anew.
func TestReverseProxy(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]time.Duration{"default": 0, "at once": -1, "later": time.Millisecond}, func(t *testing.T, interval time.Duration) {
		body, piece := io.Pipe()
		go func() {
			_, _ = piece.Write([]byte("first"))
			time.Sleep(time.Second) //nolint:forbidigo // synctest's time
			_ = piece.Close()
		}()
		proxy := &httputil.ReverseProxy{
			Rewrite: func(*httputil.ProxyRequest) {}, FlushInterval: interval,
			Transport: upstream(func() *http.Response {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, ContentLength: -1}
			}),
		}
		w := &flushed{ResponseRecorder: httptest.NewRecorder()}
		proxy.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
		if len(w.byProxy) == 0 {
			t.Fatal("the proxy has not flushed")
		}
		for _, known := range w.byProxy {
			if !known {
				t.Errorf("a flush is not the proxy's: %v", w.byProxy)
			}
		}
	})
	w := &flushed{ResponseRecorder: httptest.NewRecorder()}
	if _ = w.FlushError(); w.byProxy[0] {
		t.Error("the flush of a test is a proxy's")
	}
}
