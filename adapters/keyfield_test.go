package adapters_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

func withField(options ...policy.Option) program {
	return program{policy: append([]policy.Option{policy.KeyField("request_id")}, options...)}
}

// body is a payment without a key header.
func body(text string) *http.Request { return post("/payments", "", text, withoutKey) }

// echo responds with the request's body.
func echo(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	w.Write(text)
}

// The key stands in the body, and is the same key as in a header.
func TestKeyField(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		var read []string
		p := withField()
		p.handler = func(w http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			read = append(read, string(text))
			if key := core.KeyFrom(r.Context()); err != nil || key == "" {
				t.Errorf("the handler's key is %q, %v", key, err)
			}
			created(w, r)
		}
		s := m.start(t, p)
		const first = `{"amount":1,"request_id":"k"}`
		s.runsAgain(body(first))
		s.replays(body(first))
		s.replays(body(`{"request_id": "k", "amount": 1}`))
		s.replays(post("/payments", "k", first))
		s.refuses(body(`{"amount":2,"request_id":"k"}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.runsAgain(body(`{"amount":1,"request_id":"j"}`))
		if read[0] != first {
			t.Errorf("the handler read %q, want the whole body", read[0])
		}
	})
}

// A number is a key as it is written.
func TestNumbersInTheKeyField(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, withField())
		for _, number := range []string{"9007199254740993", "9007199254740992", "1e2", "100", "1.50", "1.5", "-1"} {
			s.runsAgain(body(`{"request_id":` + number + `}`))
			s.replays(post("/payments", number, `{"request_id":`+number+`}`))
		}
	})
}

func TestKeyFieldOfAPath(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, withField(policy.KeyField("meta.request_id")))
		s.runsAgain(body(`{"request_id":"a","meta":{"request_id":"k"}}`))
		s.replays(post("/payments", "k", `{"request_id":"a","meta":{"request_id":"k"}}`))
		s.refuses(body(`{"request_id":"a"}`), http.StatusBadRequest, problem.KeyMissing)
	})
}

// Wrong bodies are refused before the store is called, and the problem names the field.
func TestKeyFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	const required = "request_id is required in the JSON body"
	const form = "request_id must be a number, or a string of 1 to 255 visible ASCII characters"
	for name, row := range map[string]struct {
		request    func() *http.Request
		code, text string
	}{
		"no field":             {func() *http.Request { return body(amount) }, problem.KeyMissing, required},
		"null":                 {func() *http.Request { return body(`{"request_id":null}`) }, problem.KeyMissing, required},
		"an inner member":      {func() *http.Request { return body(`{"a":{"request_id":"k"}}`) }, problem.KeyMissing, required},
		"no JSON":              {func() *http.Request { return body(`request_id=k`) }, problem.KeyMissing, required},
		"only a header":        {func() *http.Request { return post("/payments", "k", amount) }, problem.KeyMissing, required},
		"empty":                {func() *http.Request { return body(`{"request_id":""}`) }, problem.KeyInvalid, form},
		"a space":              {func() *http.Request { return body(`{"request_id":"a b"}`) }, problem.KeyInvalid, form},
		"an object":            {func() *http.Request { return body(`{"request_id":{}}`) }, problem.KeyInvalid, form},
		"true":                 {func() *http.Request { return body(`{"request_id":true}`) }, problem.KeyInvalid, form},
		"too long":             {func() *http.Request { return body(`{"request_id":"` + strings.Repeat("k", 256) + `"}`) }, problem.KeyInvalid, "request_id must not exceed 255 characters"},
		"twice":                {func() *http.Request { return body(`{"request_id":"k","request_id":"k"}`) }, problem.KeyInvalid, "request_id must be given once"},
		"twice in other cases": {func() *http.Request { return body(`{"request_id":"k","Request_ID":"j"}`) }, problem.KeyInvalid, "request_id must be given once"},
		"another header":       {func() *http.Request { return post("/payments", "j", `{"request_id":"k"}`) }, problem.KeyInvalid, "Idempotency-Key and request_id must be the same key"},
		"a wrong header":       {func() *http.Request { return post("/payments", "a b", `{"request_id":"k"}`) }, problem.KeyInvalid, "Idempotency-Key must be 1 to 255"},
		"a long body":          {func() *http.Request { return body(strings.Repeat(" ", 2<<20)) }, problem.BodyTooLarge, "Request body too large"},
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			for _, required := range []bool{true, false} {
				s := m.start(t, withField(policy.Required(required)))
				if !required && row.code == problem.KeyMissing && name != "only a header" {
					s.runsAgain(row.request())
					continue
				}
				answer := s.do(row.request())
				if p := problemIn(t, answer); p.Code != row.code || !strings.HasPrefix(p.Error, row.text) {
					t.Errorf("got %s, want %s: %s", answer.Body, row.code, row.text)
				}
				if s.ran(0); s.store.acquires.Load() != 0 {
					t.Error("the request reached the store")
				}
			}
		})
	}
}

// Where no key is required, the handler of a request without the field reads the body.
func TestKeyFieldNotRequired(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		p := withField(policy.Required(false))
		p.handler = echo
		s := m.start(t, p)
		s.gets(s.runsAgain(body(amount)), anyStatus, amount)
		s.reported(event.NoKey, 1)
	})
}

// An observing route runs every request, and reports the decisions of a guard.
func TestKeyFieldObserved(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		p := withField(policy.Observe(true))
		p.handler = echo
		s := m.start(t, p)
		for _, text := range []string{`{"request_id":"k"}`, `{"request_id":"k"}`, amount} {
			s.gets(s.runsAgain(body(text)), anyStatus, text)
		}
		if len(s.events.of(event.Execute)) != 1 || len(s.events.of(event.Replay)) != 1 || len(s.events.of(event.Refused)) != 1 {
			t.Errorf("events are %+v", s.events.all)
		}
	})
}
