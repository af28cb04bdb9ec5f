package inspector_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// fill makes a record in every state but expired.
func (s *service) fill() {
	s.pay("abandoned", "uncertain")
	s.request("/refunds/7", "refund", "uncertain", payment)
	s.pay("done", "")
	s.pay("declined", "decline")
	s.pay("streamed", "stream")
	go s.pay("slow", "slow")
	<-s.begun
	s.Cleanup(func() { close(s.finish) })
}

func statesOf(list inspector.Records) (states []string) {
	for _, one := range list.Records {
		states = append(states, one.State)
	}
	return states
}

const twoAbandoned = "abandoned" + " abandoned"

func TestRecordsAreListedByUrgency(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.fill()
	for query, want := range map[string]string{
		"":                                      twoAbandoned + " in_progress",
		"?state=abandoned":                      twoAbandoned,
		"?state=abandoned&route=POST+/payments": "abandoned",
		"?state=in_progress":                    "in_progress",
		"?state=completed":                      "completed",
		"?state=failed":                         "failed",
		"?state=unreplayable":                   "unreplayable",
		"?state=expired":                        "",
		"?state=all&route=POST+/refunds/%7Bid%7D": "abandoned",
		"?state=open&older=1h":                    "",
	} {
		list := read[inspector.Records](s, s.get("/"+query, acceptsJSON...), http.StatusOK)
		testkit.Equal(t, strings.Join(statesOf(list), " "), want, "%q lists", query)
	}
	list := read[inspector.Records](s, s.get("/?state=all", acceptsJSON...), http.StatusOK)
	for _, count := range list.Counts {
		want := map[string]int{"abandoned": 2, "in_progress": 1, "unreplayable": 1, "failed": 1, "completed": 1}[count.State]
		if count.Count != want || count.AtLeast {
			t.Errorf("the count is %+v, want %d", count, want)
		}
	}
	for _, count := range read[inspector.Records](s, s.get("/?limit=1", acceptsJSON...), http.StatusOK).Counts[:2] {
		if !count.AtLeast {
			t.Errorf("of a list with more pages, the count is %+v, want one that may be too small", count)
		}
	}
	first := list.Records[0]
	if first.Holder != "pod-1" || first.Attempt != 1 || first.Requests != 1 || first.Created.IsZero() || first.Expires.IsZero() || first.OnAbandoned == "" {
		t.Errorf("the first record is %+v", first)
	}
	s.wantPage(s.get("/?within=30s"), http.StatusOK, s.id("abandoned"), "policy: Refuse", "by <code>pod-1</code>", "abandoned: outcome unknown")
}

// The patterns of chi and gin name no method: the list shows those of the engine's routes, and
// its filter takes what it shows.
func TestListNamesTheMethod(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.mux.Handle("/chi", s.engine.Handler(http.HandlerFunc(s.handle)))
	s.pay("net/http", "")
	s.request("/chi", "chi", "", payment)
	shown := make(map[string]string)
	for _, one := range read[inspector.Records](s, s.get("/?state=all", acceptsJSON...), http.StatusOK).Records {
		shown[one.Route] = one.Endpoint
	}
	if len(shown) != 2 || shown["/chi"] != "POST /chi" || shown["POST /payments"] != "" {
		t.Errorf("the routes are %q", shown)
	}
	s.engine.MustRoute().Declare(core.Endpoint{Method: http.MethodPatch, Pattern: "/chi"})
	id := s.engine.StorageKey("alice", http.MethodPost, "/chi", "chi")
	if one := read[inspector.Record](s, s.get("/records/"+id, acceptsJSON...), http.StatusOK); one.Endpoint != "PATCH, POST /chi" {
		t.Errorf("the endpoint of a record is %q", one.Endpoint)
	}
	s.wantPage(s.get("/records/"+id), http.StatusOK, "<p>PATCH, POST /chi")
	s.wantPage(s.get("/?state=all&within=30s"), http.StatusOK, "<td>PATCH, POST /chi", "<td>POST /payments")
	for route, want := range map[string]string{"POST+/chi": "/chi", "PATCH,+POST+/chi": "/chi", "/chi": "/chi", "POST+/payments": "POST /payments"} {
		list := read[inspector.Records](s, s.get("/?state=all&route="+route, acceptsJSON...), http.StatusOK)
		if len(list.Records) != 1 || list.Records[0].Route != want {
			t.Errorf("route=%s shows %+v", route, list.Records)
		}
	}
}

// The filter offers the routes as records have them: the patterns of chi and gin name no
// method.
func TestOfferedRoutesAreThoseOfRecords(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.mux.Handle("/chi", s.engine.Handler(http.HandlerFunc(s.handle)))
	s.pay("net/http", "")
	s.request("/chi", "chi", "", payment)
	page := s.get("/?within=30s").Body.String()
	list := read[inspector.Records](s, s.get("/?state=all", acceptsJSON...), http.StatusOK)
	if len(list.Records) != 2 {
		t.Fatalf("there are %d records, want 2", len(list.Records))
	}
	for _, one := range list.Records {
		if !strings.Contains(page, `<option value="`+one.Route+`">`) {
			t.Errorf("the filter does not offer %q:\n%s", one.Route, page)
		}
	}
}

// A page says how far it has looked, and its link goes on from there.
func TestListIsContinued(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	for _, key := range []string{"k1", "k2", "k3"} {
		s.pay(key, "")
	}
	seen, query := map[string]bool{}, url.Values{"state": {"completed"}, "limit": {"2"}}
	for pages := 0; ; pages++ {
		list := read[inspector.Records](s, s.get("/?"+query.Encode(), acceptsJSON...), http.StatusOK)
		testkit.Equal(t, len(list.Counts) > 0, pages == 0, "page %d has %d counts", pages, len(list.Counts))
		for _, one := range list.Records {
			seen[one.Record] = true
		}
		if list.Next == "" {
			break
		}
		query.Set("cursor", list.Next)
		if pages == 0 {
			s.wantPage(s.get("/?state=completed&limit=2&within=30s"), http.StatusOK, "Look at the next 20,000", "cursor=")
		}
		if pages > 5 {
			t.Fatal("the list does not end")
		}
	}
	testkit.Equal(t, len(seen), 3, "records in the pages")
}

func TestEmptyListsSayWhy(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.wantPage(s.get("/"), http.StatusOK, "Nothing is stored yet")
	s.pay("k1", "")
	s.wantPage(s.get("/?state=abandoned&route=POST+/payments&within=30s"), http.StatusOK, "No record matches", "state abandoned, route POST /payments", "All records were looked at")
	for i := range 300 {
		s.pay("k"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "")
	}
	w := s.get("/?state=abandoned&look=1")
	s.wantPage(w, http.StatusOK, "None among the", "There are more records to look at", "Look at the next")
}

func TestWrongFiltersAreNamed(t *testing.T) {
	t.Parallel()
	s := newService(t, newBrokenStore(nil))
	for query, field := range map[string]string{
		"state=gone": "state", "older=soon": "older", "older=-1s": "older", "limit=0": "limit", "limit=1001": "limit", "look=x": "look", "within=1h": "within", "within=0s": "within", "cursor=zzz": "cursor",
	} {
		fault := read[inspector.Fault](s, s.get("/?"+query, acceptsJSON...), http.StatusBadRequest)
		if !strings.Contains(fault.Detail, field) {
			t.Errorf("%s: the fault is %+v, want one that names %s", query, fault, field)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.pay("order-42", "")
	for _, form := range []url.Values{
		{"key": {"order-42"}, "scope": {"alice"}, "target": {"POST /payments"}},
		{"key": {` "order-42" `}, "scope": {"alice"}, "target": {"/payments"}},
		{"key": {s.id("order-42")}},
	} {
		w := s.post("/find", form)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "./records/"+s.id("order-42") {
			t.Errorf("%v: %d to %q, want the record's own address", form, w.Code, w.Header().Get("Location"))
		}
		if found := read[inspector.Record](s, s.post("/find", form, acceptsJSON...), http.StatusOK); !found.Found || found.Record != s.id("order-42") {
			t.Errorf("%v: found %+v", form, found)
		}
	}
	absent := read[inspector.Record](s, s.post("/find", url.Values{"key": {"order-43"}, "scope": {"alice"}, "target": {"POST /payments"}}, acceptsJSON...), http.StatusNotFound)
	if absent.Found || absent.Record != s.id("order-43") || absent.Outlook.Result != "execute" {
		t.Errorf("the absent record is %+v", absent)
	}
	s.wantPage(s.get("/records/"+s.id("order-43")), http.StatusNotFound, "There is no record for this key", "MarkRetryable", "has expired", "another scope", "never arrived")
	for _, form := range []url.Values{{}, {"key": {"order-42"}}, {"key": {"a,b"}, "target": {"POST /payments"}}, {"key": {"a"}, "target": {"POST payments"}}} {
		s.wantPage(s.post("/find", form), http.StatusBadRequest)
	}
	s.wantPage(s.get("/records/abc"), http.StatusNotFound, "64 hex digits")
}

// An empty list is [] in JSON, because programs walk through it.
func TestEmptyListsAreNoNull(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	s := newService(t, store)
	absent := s.get("/records/"+s.id("absent"), acceptsJSON...).Body.String()
	lease, _, err := store.Acquire(t.Context(), storage.Claim{Key: s.id("bare"), Token: storage.NewToken(), LockTTL: time.Minute, Retain: time.Hour})
	testkit.Must(t, err)
	testkit.Must(t, store.Complete(t.Context(), lease, storage.Result{State: storage.Completed, Status: http.StatusNoContent, Retain: time.Hour, Header: storage.Header{{Op: storage.Delete, Name: "Date"}}}))
	bare := s.get("/records/"+s.id("bare"), acceptsJSON...).Body.String()
	running := s.get("/running", acceptsJSON...).Body.String()
	if !strings.Contains(absent, `"timeline":[]`) || !strings.Contains(running, `"runs":[]`) || !strings.Contains(bare, `"headers":[]`) || strings.Contains(absent+bare+running, "null") || strings.Contains(bare, `"mayReveal":true`) {
		t.Errorf("got %s, %s and %s, want empty lists and no null", absent, bare, running)
	}
}
