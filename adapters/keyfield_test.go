package adapters_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
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
		testkit.Equal(t, read[0], first, "the handler read")
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
				s.ran(0)
				s.claimed(0)
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
		p := withField(policy.ObserveOnly(true))
		p.handler = echo
		s := m.start(t, p)
		for _, text := range []string{`{"request_id":"k"}`, `{"request_id":"k"}`, amount} {
			s.gets(s.runsAgain(body(text)), anyStatus, text)
		}
		for _, result := range []event.Result{event.Execute, event.Replay, event.Refused} {
			s.reported(result, 1)
		}
	})
}

// uuidOf returns a UUID of version 7 that was made at a time.
func uuidOf(made time.Time) string {
	hex := fmt.Sprintf("%012x", made.UnixMilli())
	return hex[:8] + "-" + hex[8:] + "-7cc3-98c4-dc0c0c07398f"
}

// ulidOf returns a ULID that was made at a time.
func ulidOf(made time.Time) string {
	ulid := []byte("0000000000TSV4RRFFQ69G5FAV")
	for i, rest := 9, made.UnixMilli(); i >= 0; i, rest = i-1, rest/32 {
		ulid[i] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[rest%32]
	}
	return string(ulid)
}

// sentAt is a client that tells the time of its first attempt.
func sentAt(made time.Time) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Repeatability-First-Sent", made.UTC().Format(http.TimeFormat)) }
}

// aged is a program with a KeyAge of an hour, beside a TTL of two.
func aged(options ...policy.Option) program {
	return program{policy: append([]policy.Option{policy.TTLHours(2), policy.KeyAge(time.Hour)}, options...)}
}

// A key in any form of its time runs once, is replayed, and is refused for ever after its
// record.
func TestKeyAge(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]func(made time.Time) *http.Request{
		"a UUID of version 7": func(made time.Time) *http.Request { return payment(uuidOf(made)) },
		"in capitals":         func(made time.Time) *http.Request { return payment(strings.ToUpper(uuidOf(made))) },
		"in quotes":           func(made time.Time) *http.Request { return payment(`"` + uuidOf(made) + `"`) },
		"a ULID":              func(made time.Time) *http.Request { return payment(ulidOf(made)) },
		"a small ULID":        func(made time.Time) *http.Request { return payment(strings.ToLower(ulidOf(made))) },
		"a header":            func(made time.Time) *http.Request { return payment("order-17", sentAt(made)) },
		"a header beside a UUID of version 4": func(made time.Time) *http.Request {
			return payment("8e03978e-40d5-43dd-bc93-6894a57f9324", sentAt(made))
		},
	} {
		onCase(t, name, everyRouter, inABubble(func(t *testing.T, m mounting) {
			store := memstore.New()
			p := aged()
			p.store = store
			s := m.start(t, p)
			made := time.Now()
			s.runsAgain(request(made))
			advance(2*time.Hour - time.Second)
			s.replays(request(made))
			advance(time.Second)
			s.refuses(request(made), http.StatusConflict, problem.KeyExpired)
			advance(10 * 365 * 24 * time.Hour)
			s.refuses(request(made), http.StatusConflict, problem.KeyExpired)
			s.ran(1)
			s.reported(event.KeyExpired, 2, problem.KeyExpired)
			if found, err := store.List(t.Context(), storage.Filter{}, storage.Page{Limit: 10}); err != nil || len(found.Entries) > 0 {
				t.Errorf("the store keeps %v, %v", found.Entries, err)
			}
		}))
	}
}

// A client cannot avoid the rule by a key without a time, or by a wrong time.
func TestKeyAgeRefusesKeysWithoutATime(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		s, now := m.start(t, aged()), time.Now()
		const forms = "Idempotency-Key must be a UUID of version 7 or a ULID, or any other key with the header Repeatability-First-Sent"
		for name, row := range map[string]struct {
			request *http.Request
			want    string
		}{
			"no time":              {payment("order-17"), forms},
			"a UUID of version 4":  {payment("8e03978e-40d5-43dd-bc93-6894a57f9324"), forms},
			"a header of no date":  {payment("order-17", func(r *http.Request) { r.Header.Set("Repeatability-First-Sent", "1700000000") }), "Repeatability-First-Sent must be given once, as an HTTP date"},
			"a key of the future":  {payment(uuidOf(now.Add(5*time.Minute + time.Second))), "Idempotency-Key must not be from more than five minutes in the future"},
			"a date of the future": {payment("order-17", sentAt(now.Add(5*time.Minute+time.Second))), "Repeatability-First-Sent must not be from more than five minutes in the future"},
			"a young header beside an old key is not asked": {payment(uuidOf(now.Add(-time.Hour)), sentAt(now)), ""},
		} {
			p := problemIn(t, s.do(row.request))
			if row.want == "" && p.Code != problem.KeyExpired {
				t.Errorf("%s: got %+v, want key_expired", name, p)
			}
			if row.want != "" && (p.Code != problem.KeyInvalid || !strings.HasPrefix(p.Error, row.want) || !strings.Contains(p.Detail, forms[len("Idempotency-Key must be "):])) {
				t.Errorf("%s: got %+v, want %s", name, p, row.want)
			}
		}
		s.ran(0)
		s.runsAgain(payment(uuidOf(now.Add(5 * time.Minute))))

		field := m.start(t, aged(policy.KeyField("id")))
		if p := problemIn(t, field.do(body(`{"id":"order-17"}`))); p.Code != problem.KeyInvalid || !strings.HasPrefix(p.Error, "id must be a UUID of version 7") {
			t.Errorf("got %+v, want a problem that names the field", p)
		}
		field.runsAgain(body(`{"id":"` + uuidOf(now) + `"}`))
		old := body(`{"id":"order-17"}`)
		sentAt(now.Add(-time.Hour))(old)
		field.refuses(old, http.StatusConflict, problem.KeyExpired)

		named := aged()
		named.options = []core.Option{core.WithKeyHeader("X-Request-Id")}
		other := m.start(t, named)
		request := payment("", withoutKey, func(r *http.Request) { r.Header.Set("X-Request-Id", "order-17") })
		if p := problemIn(t, other.do(request)); p.Code != problem.KeyInvalid || !strings.HasPrefix(p.Error, "X-Request-Id must be a UUID of version 7") {
			t.Errorf("got %+v, want a problem that names the header", p)
		}

		uuids := m.start(t, aged(policy.KeyFormat(policy.UUIDKey)))
		const noULID = "a UUID of version 7, or any other UUID with the header Repeatability-First-Sent"
		if p := problemIn(t, uuids.do(payment("8e03978e-40d5-43dd-bc93-6894a57f9324"))); p.Error != "Idempotency-Key must be "+noULID || !strings.Contains(p.Detail, noULID) {
			t.Errorf("got %+v, want a problem that names no ULID", p)
		}
	}))
}
