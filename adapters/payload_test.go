package adapters_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func version(value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("X-Api-Version", value) }
}

// An included header belongs to the request, also where all bytes of the body are equal.
func TestIncludeHeaders(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		for _, text := range []string{amount, ""} {
			s := m.start(t, program{policy: []policy.Option{policy.IncludeHeaders("x-api-version")}})
			s.runsAgain(post("/payments", "k", text, version("1")))
			s.replays(post("/payments", "k", text, version("1"), func(r *http.Request) { r.Header.Set("X-Other", "2") }))
			s.refuses(post("/payments", "k", text, version("2")), http.StatusUnprocessableEntity, problem.KeyReused)
			s.refuses(post("/payments", "k", text), http.StatusUnprocessableEntity, problem.KeyReused)
			s.runsAgain(post("/payments", "j", text))
			s.replays(post("/payments", "j", text))
		}
	})
}

// Only the included fields of a body belong to the request.
func TestIncludeFields(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{policy: []policy.Option{policy.IncludeFields("amount", "currency")}})
		s.runsAgain(payment("k"))
		s.replays(post("/payments", "k", `{"sentAt":1,"currency":"EUR","amount":1999}`))
		s.refuses(post("/payments", "k", `{"amount":1998,"currency":"EUR"}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.refuses(post("/payments", "k", `{"amount":1999}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.runsAgain(post("/payments", "j", `{"other":1}`))
		s.refuses(post("/payments", "j", `{"other":2}`), http.StatusUnprocessableEntity, problem.KeyReused)
	})
}

// Case 78: every byte of the query and of the body belongs to the request, and a 422 names no
// members.
func TestExactBytes(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{policy: []policy.Option{policy.ExactBytes(true)}, options: []core.Option{core.WithDiffers()}})
		const first = `{"amount":1999,"currency":"EUR"}`
		s.runsAgain(post("/payments", "k", first))
		s.replays(post("/payments", "k", first))
		for name, other := range map[string]string{
			"blank": `{"amount":1999, "currency":"EUR"}`, "order": `{"currency":"EUR","amount":1999}`, "number": `{"amount":1999.0,"currency":"EUR"}`,
		} {
			answer := s.do(post("/payments", "k", other))
			if p := problemIn(s, answer); p.Code != problem.KeyReused || p.Differs != nil || p.Others != 0 || s.runs.Load() != 1 {
				t.Errorf("%s: got %+v after %d runs, want key_reused without members after one", name, p, s.runs.Load())
			}
		}
		s.refuses(post("/payments?a=1", "k", first), http.StatusUnprocessableEntity, problem.KeyReused)
		s.runsAgain(post("/payments", "j", "no JSON"))
		s.replays(post("/payments", "j", "no JSON"))
		s.refuses(post("/payments", "j", "no JSON "), http.StatusUnprocessableEntity, problem.KeyReused)
	})
}

// order is the request of a handler, as a handler declares it.
type order struct {
	SKU  string `json:"sku"`
	Kind string `json:"kind"`
	Note string `json:"note"`
}

// Case 90: a member that the handler decodes into a field counts as that field, in every
// spelling that encoding/json accepts.
func TestIncludedNamesAreTheHandlers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, first, other string }{
		{"the long s", `{"ſku":"chair","note":"a"}`, `{"ſku":"table","note":"a"}`},
		{"the Kelvin sign", `{"Kind":"gift","note":"a"}`, `{"Kind":"sale","note":"a"}`},
		{"beside a plain name", `{"sku":"chair","ſku":"chair","note":"a"}`, `{"sku":"chair","ſku":"table","note":"a"}`},
		{"beside another field", `{"sku":"chair","Kind":"gift"}`, `{"sku":"chair","Kind":"sale"}`},
		{"escaped", `{"sku":"chair","\u017fku":"table"}`, `{"sku":"chair","\u017fku":"lamp"}`},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			var read order
			s := m.start(t, program{
				policy: []policy.Option{policy.IncludeFields("sku", "kind")},
				handler: func(w http.ResponseWriter, r *http.Request) {
					read = order{}
					if err := json.NewDecoder(r.Body).Decode(&read); err != nil {
						t.Error(err)
					}
					created(w, r)
				},
			})
			s.runsAgain(post("/payments", "k", row.first))
			first := read
			s.runsAgain(post("/payments", "j", row.other))
			if other := read; first == other || first.Note != other.Note {
				t.Fatalf("the handler reads %v and %v: the row shows nothing", first, other)
			}
			s.refuses(post("/payments", "k", row.other), http.StatusUnprocessableEntity, problem.KeyReused)
		})
	}
}

// Case 90: the rest of a body does not count, beside a spelling of an included field.
func TestIncludedNamesInAnotherSpelling(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{policy: []policy.Option{policy.IncludeFields("sku")}})
		s.runsAgain(post("/payments", "k", `{"ſku":"chair","at":1}`))
		s.replays(post("/payments", "k", `{"ſku":"chair","at":2}`))
		s = m.start(t, program{policy: []policy.Option{policy.ExcludeFields("sentAt", "meta.kind")}})
		s.runsAgain(post("/payments", "k", `{"amount":1,"ſentAt":1,"meta":{"Kind":1}}`))
		s.replays(post("/payments", "k", `{"amount":1,"sentAt":2,"meta":{"KIND":2}}`))
	})
}

// Case 90: the key is the value that the handler decodes.
func TestKeyFieldIsTheHandlers(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		var decoded, key string
		p := program{policy: []policy.Option{policy.KeyField("sku")}}
		p.handler = func(w http.ResponseWriter, r *http.Request) {
			var read order
			if err := json.NewDecoder(r.Body).Decode(&read); err != nil {
				t.Error(err)
			}
			decoded, key = read.SKU, core.KeyFrom(r.Context())
			created(w, r)
		}
		s := m.start(t, p)
		for _, text := range []string{`{"sku":"a"}`, `{"SKU":"b"}`, `{"ſku":"c"}`, `{"\u017fKU":"d"}`} {
			if s.runsAgain(body(text)); decoded != key || key == "" {
				t.Errorf("of %s the handler decodes %q, and the guard %q", text, decoded, key)
			}
			s.replays(body(text))
		}
		for _, text := range []string{`{"sku":"a","ſku":"z"}`, `{"sku":"a","ſku":"a"}`, `{"ſku":"z","Sku":"a"}`} {
			s.refuses(body(text), http.StatusBadRequest, problem.KeyInvalid)
		}
		s.ran(4)
	})
}

// Case 90: a redacted field is omitted in every spelling.
func TestRedactedNamesInAnotherSpelling(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{
			policy: []policy.Option{policy.RedactFields("token", "card.secret")},
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Write([]byte(`{"id":1,"to\u212Aen":"t","card":{"ſecret":"s"}}`))
			},
		})
		s.runsAgain(payment("k"))
		testkit.Equal(t, s.replays(payment("k")).Body.String(), `{"id":1,"card":{}}`, "the replay")
	})
}

// ofForm makes a request a form.
func ofForm(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }

// Case 89: a form has a limit of fields, that of net/url. Above it the handler reads none
// of them, and only equal bytes are an equal request.
func TestFormOfTooManyFields(t *testing.T) {
	t.Parallel()
	rest := strings.Repeat("&b=1&a=1", 5000)
	onEveryRouter(t, func(t *testing.T, m mounting) {
		fields := 0
		s := m.start(t, program{
			policy: []policy.Option{policy.ExcludeFields("nonce")},
			handler: func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm() // its error is the limit's
				fields = len(r.PostForm)
				created(w, r)
			},
		})
		s.runsAgain(post("/payments", "few", "nonce=1&a=1&b=1", ofForm))
		testkit.Equal(t, fields, 3, "fields that the handler reads")
		s.replays(post("/payments", "few", "b=1&nonce=2&a=1", ofForm))

		s.runsAgain(post("/payments", "many", "nonce=1"+rest, ofForm))
		testkit.Equal(t, fields, 0, "fields that the handler reads")
		s.replays(post("/payments", "many", "nonce=1"+rest, ofForm))
		s.refuses(post("/payments", "many", "nonce=2"+rest, ofForm), http.StatusUnprocessableEntity, problem.KeyReused)
		s.refuses(post("/payments", "many", "nonce=1"+rest+"&", ofForm), http.StatusUnprocessableEntity, problem.KeyReused)

		s.runsAgain(post("/payments?nonce=1"+rest, "query", ""))
		s.replays(post("/payments?nonce=1"+rest, "query", ""))
		s.refuses(post("/payments?nonce=2"+rest, "query", ""), http.StatusUnprocessableEntity, problem.KeyReused)
	})
}
