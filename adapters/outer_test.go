package adapters_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// outer is middleware outside the guard, as most programs have it.
func outer() middleware {
	var requests atomic.Int64
	return before(func(w http.ResponseWriter, _ *http.Request) {
		n := strconv.FormatInt(requests.Add(1), 10)
		h := w.Header()
		h.Set("X-Request-Id", n)
		h.Set("X-Served-By", "outer "+n)
		h.Set("Access-Control-Allow-Origin", "https://shop.example")
		h.Add("Vary", "Origin")
		h.Add("Set-Cookie", "session="+n)
		h["Traceparent"] = []string{"00-" + n}
	})
}

// Case 26: header fields from outer middleware are set anew for each request.
func TestOuterHeaders(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		handler func(h http.Header)
		// the client's values of the name, first and from the replay
		header        string
		first, replay []string
	}{
		{name: "untouched", header: "X-Request-Id", first: []string{"1"}, replay: []string{"2"}},
		{name: "set to the same value", header: "X-Request-Id", handler: func(h http.Header) { h.Set("X-Request-Id", h.Get("X-Request-Id")) }, first: []string{"1"}, replay: []string{"2"}},
		{name: "cookie of the outer", header: "Set-Cookie", first: []string{"session=1"}, replay: []string{"session=2"}},
		{name: "cookie of both", header: "Set-Cookie", handler: func(h http.Header) { h.Add("Set-Cookie", "seen=yes") }, first: []string{"session=1", "seen=yes"}, replay: []string{"session=2"}},
		{name: "added to", header: "Vary", handler: func(h http.Header) { h.Add("Vary", "Accept"); h.Add("Vary", "Accept-Language") }, first: []string{"Origin", "Accept", "Accept-Language"}, replay: []string{"Origin", "Accept", "Accept-Language"}},
		{name: "added to what changes", header: "X-Served-By", handler: func(h http.Header) { h.Add("X-Served-By", "inner") }, first: []string{"outer 1", "inner"}, replay: []string{"outer 2", "inner"}},
		{name: "replaced", header: "X-Served-By", handler: func(h http.Header) { h.Set("X-Served-By", "inner") }, first: []string{"inner"}, replay: []string{"inner"}},
		{name: "put in front", header: "Vary", handler: func(h http.Header) { h["Vary"] = []string{"Accept", "Origin"} }, first: []string{"Accept", "Origin"}, replay: []string{"Accept", "Origin"}},
		{name: "deleted", header: "X-Served-By", handler: func(h http.Header) { h.Del("X-Served-By") }},
		{name: "deleted by an empty list", header: "X-Served-By", handler: func(h http.Header) { h["X-Served-By"] = []string{} }},
		{name: "set inside", header: "Location", handler: func(h http.Header) { h.Set("Location", "/payments/17") }, first: []string{"/payments/17"}, replay: []string{"/payments/17"}},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{
				outside: []middleware{outer()},
				handler: func(w http.ResponseWriter, _ *http.Request) {
					if row.handler != nil {
						row.handler(w.Header())
					}
					w.WriteHeader(http.StatusCreated)
				},
			})
			first := s.do(payment("k")).Result().Header[row.header]
			replay := s.replays(payment("k")).Result().Header[row.header]
			if !slices.Equal(first, row.first) || !slices.Equal(replay, row.replay) {
				t.Errorf("%s is %q, and %q in the replay\nwant %q, and %q", row.header, first, replay, row.first, row.replay)
			}
		})
	}
}

// Case 26: the engine's own responses keep the header fields of outer middleware.
func TestOuterHeadersOfProblems(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{outside: []middleware{outer()}})
		s.refuses(payment(""), http.StatusBadRequest, problem.KeyInvalid)
		answer := s.do(payment(""))
		if id := answer.Header().Get("X-Request-Id"); id != "2" || answer.Header().Get("Vary") != "Origin" {
			t.Errorf("header is %v", answer.Header())
		}
	})
}

// Case 26: a value that would split the response is dropped at once.
func TestHeaderValueWithALineBreak(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{handler: then(set("X-Note", "a\r\nX-Admin: yes"), created)})
		for _, answer := range []*httptest.ResponseRecorder{s.do(payment("k")), s.replays(payment("k"))} {
			if note := answer.Result().Header["X-Note"]; note != nil {
				t.Errorf("sent %q", note)
			}
		}
	})
}

// A replay has no header fields that belong to one connection, one moment or one browser.
func TestHeadersThatAreNotReplayed(t *testing.T) {
	t.Parallel()
	names := []string{ // Case 26
		"Date", "Set-Cookie", "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Transfer-Encoding", "Upgrade",
		"set-cookie", "date", "connection", // as a handler spells them that goes round Header.Set
	}
	for _, name := range names {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header()[name] = []string{"first", "second"}
				w.Header().Set("Location", "/payments/17")
				w.WriteHeader(http.StatusCreated)
			}})
			first, replay := s.do(payment("k")), s.replays(payment("k"))
			testkit.EqualSlices(t, first.Result().Header[name], []string{"first", "second"}, "first sent with")
			want := http.Header{"Location": {"/payments/17"}, marker: {"true"}}
			if got := replay.Result().Header; !equalHeaders(got, want) {
				t.Errorf("replayed with %v, want %v", got, want)
			}
		})
	}
}

// Case 59: a header that Connection nominates belongs to the connection as well.
func TestNominatedHeadersAreNotReplayed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name       string
		connection []string
	}{
		{"one", []string{"X-Hop"}},
		{"in small letters", []string{"x-hop"}},
		{"in a list", []string{"close, x-hop ,Upgrade"}},
		{"in two lines", []string{"close", "X-Hop"}},
	} {
		for _, spelled := range []string{"X-Hop", "x-hop"} {
			for _, name := range []string{"Connection", "connection"} {
				onCase(t, row.name+"/"+name+"/"+spelled, everyRouter, func(t *testing.T, m mounting) {
					s := m.start(t, program{
						policy:  []policy.Option{policy.KeepHeaders("X-Hop")},
						handler: then(set(name, row.connection...), set(spelled, "a", "b"), set("X-Kept", "yes"), created),
					})
					first, replay := s.do(payment("k")), s.replays(payment("k"))
					testkit.EqualSlices(t, first.Result().Header[spelled], []string{"a", "b"}, "first sent with")
					want := http.Header{"Location": {"/payments/17"}, "X-Kept": {"yes"}, marker: {"true"}}
					if got := replay.Result().Header; !equalHeaders(got, want) {
						t.Errorf("replayed with %v, want %v", got, want)
					}
				})
			}
		}
	}
}

func TestHeadersThatThePolicyKeeps(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{
			policy: []policy.Option{policy.KeepHeaders("set-cookie", "Date")},
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Set-Cookie"] = []string{"b=2", "a=1", "b=2"}
				w.Header().Set("Date", "Thu, 01 Jan 1970 00:00:00 GMT")
				w.WriteHeader(http.StatusCreated)
			},
		})
		first, replay := s.do(payment("k")).Result().Header, s.replays(payment("k")).Result().Header
		first.Set(marker, "true")
		if !equalHeaders(first, replay) || len(replay["Set-Cookie"]) != 3 {
			t.Errorf("replayed with %v, want %v", replay, first)
		}
	})
}

// Case 27
func TestHandlerCannotForgeTheMarker(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]http.HandlerFunc{
		"set":                   func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(marker, "true") },
		"in small letters":      func(w http.ResponseWriter, _ *http.Request) { w.Header()["x-idempotent-replay"] = []string{"true"} },
		"deleted":               func(w http.ResponseWriter, _ *http.Request) { w.Header()[marker] = nil },
		"set to something else": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(marker, "false") },
		"announced as a trailer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", marker)
			w.Header().Set(marker, "true")
		},
		"as a trailer": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(http.TrailerPrefix+marker, "true") },
		"and streamed": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(marker, "true"); w.(http.Flusher).Flush() },
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{handler: then(forge, created)})
			first := s.do(payment("k")).Result()
			for _, where := range []http.Header{first.Header, first.Trailer} {
				for spelled, values := range where {
					if http.CanonicalHeaderKey(spelled) == marker && len(values) > 0 {
						t.Errorf("the first response has %s: %q", spelled, values)
					}
				}
			}
			if replay := s.do(payment("k")); replay.Code == http.StatusCreated && !isReplay(replay) {
				t.Errorf("the replay says %q", replay.Result().Header[marker])
			}
		})
	}
}

func TestReplayHeaderHasAnotherName(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{options: []core.Option{core.WithReplayHeader("idempotency-replayed")}})
		s.do(payment("k"))
		replay := s.do(payment("k"))
		s.ran(1)
		if replay.Header().Get("Idempotency-Replayed") != "true" || replay.Header().Get(marker) != "" {
			t.Errorf("header is %v", replay.Header())
		}
	})
}

func TestProblemsInAnotherForm(t *testing.T) {
	t.Parallel()
	plain := core.WithProblemWriter(func(w http.ResponseWriter, r *http.Request, p problem.Problem) {
		w.Header().Set("X-Path", r.URL.Path)
		http.Error(w, p.Code, p.Status)
	})
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{options: []core.Option{plain}, handler: then(executed, panicking)})
		want := func(answer *httptest.ResponseRecorder, status int, code string) {
			t.Helper()
			if answer.Code != status || answer.Body.String() != code+"\n" || answer.Header().Get("X-Path") != "/payments" {
				t.Errorf("got %d %q %v, want %d %q", answer.Code, answer.Body, answer.Header(), status, code)
			}
		}
		want(s.do(payment("")), http.StatusBadRequest, problem.KeyInvalid)
		s.try(payment("k"))
		want(s.replays(payment("k")), http.StatusInternalServerError, problem.HandlerFailed)
	})
}

// Case 26: the engine checks the header that a store returns.
func TestStoredHeadersThatAreNotValid(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{store: holding(storage.Record{State: storage.Completed, Status: 201, Header: storage.Header{
			{Name: "", Value: "no name"},
			{Name: "Bad Name", Value: "space"},
			{Name: "Bad:Name", Value: "colon"},
			{Name: "X-Split\r\nSet-Cookie", Value: "a=1"},
			{Name: "X-Lines", Value: "a\r\nSet-Cookie: a=1"},
			{Name: "X-Mixed", Value: "a\nb"},
			{Name: "X-Mixed", Value: "good"},
			{Name: "X-Nul", Value: "\x00"},
			{Name: "X-Tab", Value: "a\tb"},
			{Name: marker, Value: "false"},
		}})})
		want := http.Header{"X-Mixed": {"good"}, "X-Tab": {"a\tb"}, marker: {"true"}}
		if got := s.replays(payment("k")).Result().Header; !equalHeaders(got, want) {
			t.Errorf("header is %q, want %q", got, want)
		}
	})
}
