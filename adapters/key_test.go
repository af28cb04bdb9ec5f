package adapters_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

func TestRawAndQuotedAreTheSameKey(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, raw, quoted string }{
		{"plain", "order-17", `"order-17"`},
		{"white space around", "order-17", "\t \"order-17\" "},
		{"backslash", `order\17`, `"order\\17"`},
		{"not letters", "8e03978e:40d5/43e8?=@", `"8e03978e:40d5/43e8?=@"`},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{})
			s.do(payment(row.raw))
			s.replays(payment(row.quoted))
		})
	}
}

func TestDifferentKeysAreDifferentRequests(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{})
		for _, key := range []string{"k", "K", "k1", `"k,"`, `"k;"`, `"?1"`, `":k:"`, `"\""`, strings.Repeat("k", 255)} {
			s.runsAgain(payment(key))
		}
	})
}

// malformed are the values of Case 30, and their neighbours.
var malformed = map[string][]string{
	"empty":                    {""},
	"white space":              {" \t "},
	"empty string":             {`""`},
	"256 characters":           {strings.Repeat("k", 256)},
	"256 characters in quotes": {`"` + strings.Repeat("k", 256) + `"`},
	"NUL":                      {"k\x00"},
	"NUL in quotes":            {"\"k\x00\""},
	"line break":               {"k\r\nX-Admin: true"},
	"tab inside":               {"a\tb"},
	"space inside":             {"a b"},
	"space in quotes":          {`"a b"`},
	"delete":                   {"k\x7f"},
	"Latin-1":                  {"caf\xe9"},
	"UTF-8":                    {"café"},
	"two lines":                {"k", "k"},
	"two lines, one empty":     {"k", ""},
	"list":                     {"a, b"},
	"list of strings":          {`"a", "b"`},
	"parameters":               {"k;v=1"},
	"parameters of a string":   {`"k";v=1`},
	"byte sequence":            {":aGVsbG8=:"},
	"boolean":                  {"?1"},
	"inner list":               {`("a" "b")`},
	"inner list of tokens":     {"(a)"},
	"string not closed":        {`"k`},
	"string closed twice":      {`"k""`},
	"quote inside":             {`a"b`},
	"escape of nothing":        {`"k\"`},
	"escape of a letter":       {`"\k"`},
}

// Case 30
func TestMalformedKeyNeverReachesTheStore(t *testing.T) {
	t.Parallel()
	for name, lines := range malformed {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			for _, required := range []bool{true, false} {
				s := m.start(t, program{policy: []policy.Option{policy.Required(required)}})
				s.refuses(payment("", func(r *http.Request) { r.Header[core.KeyHeader] = lines }), http.StatusBadRequest, problem.KeyInvalid)
				s.claimed(0)
			}
		})
	}
}

func TestKeyNotRequired(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{policy: []policy.Option{policy.Required(false)}})
		s.runsAgain(payment("", withoutKey))
		s.gets(s.runsAgain(payment("", withoutKey)), http.StatusCreated)
		s.claimed(0)
		s.reported(event.NoKey, 2)
		s.runsAgain(payment("k"))
		s.replays(payment("k"))
	})
}

// A method that the policy does not name passes through as if there were no
// guard. Case 63: for a method that changes something, one event a route says so.
func TestOtherMethodsPassThrough(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{scope: nobody, method: http.MethodPut})
		put := func(r *http.Request) {
			r.Method = http.MethodPut
			r.Header[core.KeyHeader] = []string{"a", "b"}
		}
		s.runsAgain(payment("", put))
		s.runsAgain(payment("", put))
		if all := s.events.of(event.WrongSetup); len(s.events.all) != 1 || len(all) != 1 || all[0].code != "" {
			t.Errorf("events are %+v, want one %s without a code", s.events.all, event.WrongSetup)
		}
	})
}

// The response to an unguarded PUT without a handler is 404 or 405. Any client can send it,
// and it is neither reported nor counted as the one report of the route.
func TestUnguardedPutWithoutAHandler(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		statuses := []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNoContent, http.StatusNoContent}
		left := statuses
		s := m.start(t, program{method: http.MethodPut, handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(left[0])
			left = left[1:]
		}})
		for i, status := range statuses {
			s.gets(s.do(payment("", func(r *http.Request) { r.Method = http.MethodPut })), status)
			s.reported(event.WrongSetup, min(1, i/2))
		}
	})
}

func TestUnguardedPutThatPanics(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{method: http.MethodPut, handler: func(http.ResponseWriter, *http.Request) { panic("broken") }})
		s.try(payment("", func(r *http.Request) { r.Method = http.MethodPut }))
		s.reported(event.WrongSetup, 1)
	})
}

func TestMethodsOfThePolicy(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		method string
		policy []policy.Option
	}{
		{http.MethodPost, nil},
		{http.MethodPatch, nil},
		{http.MethodPut, []policy.Option{policy.Methods("PUT")}},
		{http.MethodDelete, []policy.Option{policy.Methods("POST", "DELETE")}},
	} {
		onCase(t, row.method, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{method: row.method, policy: row.policy})
			by := func(r *http.Request) { r.Method = row.method }
			s.runsAgain(payment("k", by))
			s.replays(payment("k", by))
		})
	}
}

// under gives a request its key under another header name.
func under(name, key string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Del(core.KeyHeader)
		r.Header.Add(name, key)
	}
}

var twoHeaders = []core.Option{core.WithKeyHeader("x-request-key", "Legacy-Key")}

// Each of the headers gives the same key.
func TestKeyHeaders(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{options: twoHeaders})
		s.runsAgain(payment("", under("X-Request-Key", "k")))
		s.replays(payment("", under("X-Request-Key", `"k"`)))
		s.replays(payment("", under("Legacy-Key", "k")))
	})
}

// A request with several keys is refused, also where the keys are equal.
func TestSeveralKeyHeadersAreRefused(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{options: twoHeaders})
		for _, other := range []func(*http.Request){under("Legacy-Key", "k"), under("Legacy-Key", "other"), under("X-Request-Key", "k")} {
			r := payment("", under("X-Request-Key", "k"), other)
			s.refuses(r, http.StatusBadRequest, problem.KeyInvalid)
		}
		twice := func(r *http.Request) { r.Header["Legacy-Key"] = []string{"k", "k"} }
		s.refuses(payment("", under("Legacy-Key", "k"), twice), http.StatusBadRequest, problem.KeyInvalid)
	})
}

// Every text of a problem names the configured header.
func TestProblemsNameTheKeyHeader(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{options: twoHeaders})
		s.runsAgain(payment("", under("X-Request-Key", "used")))
		for name, row := range map[string]struct {
			request *http.Request
			want    problem.Problem
		}{
			"missing, although Idempotency-Key is sent": {payment("k"), problem.Problem{
				Code: problem.KeyMissing, Title: "X-Request-Key missing", Error: "X-Request-Key header is required",
			}},
			"too long": {payment("", under("Legacy-Key", strings.Repeat("k", 256))), problem.Problem{
				Code: problem.KeyInvalid, Title: "X-Request-Key invalid", Error: "X-Request-Key must not exceed 255 characters",
			}},
			"reused": {post("/payments", "", `{}`, under("X-Request-Key", "used")), problem.Problem{
				Code: problem.KeyReused, Title: "X-Request-Key reused", Error: "X-Request-Key reused",
			}},
		} {
			answer := s.do(row.request)
			got := problemIn(t, answer)
			if got.Code != row.want.Code || got.Title != row.want.Title || got.Error != row.want.Error || strings.Contains(answer.Body.String(), core.KeyHeader) {
				t.Errorf("%s: got %s, want %+v", name, answer.Body, row.want)
			}
		}
	})
}

// A key of another format is refused, and the problem names the format.
func TestKeyFormat(t *testing.T) {
	t.Parallel()
	const uuid = "8e03978e-40d5-43dd-bc93-6894a57f9324"
	for _, row := range []struct {
		format policy.KeySyntax
		key    string
		want   string
	}{
		{policy.UUIDKey, uuid, "Idempotency-Key must be a UUID, such as 8e03978e-40d5-43dd-bc93-6894a57f9324"},
		{policy.KeyPattern("ord_[0-9]{6}"), "ord_000017", "Idempotency-Key must be a key that matches ord_[0-9]{6}"},
	} {
		onCase(t, row.format.String(), everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{policy: []policy.Option{policy.KeyFormat(row.format)}})
			s.runsAgain(payment(row.key))
			s.replays(payment(`"` + row.key + `"`))
			for _, key := range []string{"k", row.key + "0"} {
				p := problemIn(t, s.do(payment(key)))
				if p.Code != problem.KeyInvalid || p.Error != row.want || !strings.Contains(p.Detail, row.format.Expected()) {
					t.Errorf("got %+v, want %s", p, row.want)
				}
			}
			s.ran(1)
			field := m.start(t, program{policy: []policy.Option{policy.KeyFormat(row.format), policy.KeyField("id")}})
			field.runsAgain(body(`{"id":"` + row.key + `"}`))
			if p := problemIn(t, field.do(body(`{"id":"k"}`))); p.Code != problem.KeyInvalid || p.Error != strings.Replace(row.want, "Idempotency-Key", "id", 1) {
				t.Errorf("got %+v, want a problem that names the field", p)
			}
		})
	}
}
