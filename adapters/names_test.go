package adapters_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

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
		if got := s.replays(payment("k")).Body.String(); got != `{"id":1,"card":{}}` {
			t.Errorf("the replay is %s", got)
		}
	})
}
