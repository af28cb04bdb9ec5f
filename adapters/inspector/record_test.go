package inspector_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.fill()
	for key, want := range map[string]struct{ headline, gets, code, then, lane string }{
		"abandoned": {"It is not known whether it happened", "409", "outcome_unknown", "Then the record is gone, and a retry would run.", "attempt 1 and its lease for "},
		"done":      {"It ran once, and responded 201", "that response, 201", "", "Then the record is gone", "attempt 1 for "},
		"declined":  {"It failed with 402", "that response, 402", "", "Then the record is gone", "attempt 1 for "},
		"streamed":  {"its response is not kept", "409", "not_replayable", "Then the record is gone", "attempt 1 for "},
		"slow":      {"It is running now, on pod-1", "409", "in_progress", "It cannot be settled by hand while its lease runs.", "attempt 1 runs for "},
	} {
		record := s.recordOf(key)
		v := record.Verdict
		if !strings.Contains(v.Headline, want.headline) || v.Gets != want.gets || v.Code != want.code || !strings.Contains(v.Then, want.then) {
			t.Errorf("%s: the verdict is %+v, want %+v", key, v, want)
		}
		s.wantPage(s.get("/records/"+s.id(key)), http.StatusOK, `aria-label="`+want.lane)
		if key == "abandoned" && !strings.Contains(v.Story, "refuses to run it again") {
			t.Errorf("the story is %q, want the rule of the policy", v.Story)
		}
		if record.Policy == nil || record.Policy.Text != "ExcludeFields=nonce OnAbandoned=Refuse" {
			t.Errorf("%s: the policy is %+v", key, record.Policy)
		}
		if len(record.Derived) != 1 || record.Derived[0].Key != core.DerivedKey(s.id(key), "charge") {
			t.Errorf("%s: the derived keys are %+v", key, record.Derived)
		}
	}
	refund := read[inspector.Record](s, s.get("/records/"+s.engine.StorageKey("alice", http.MethodPost, "/refunds/7", "refund"), acceptsJSON...), http.StatusOK)
	if refund.Outlook.Result != "execute" || !strings.Contains(refund.Verdict.Story, "runs it again") {
		t.Errorf("a route that runs again: %+v, %+v", refund.Outlook, refund.Verdict)
	}
}

// A key that was released with steps is no abandoned one: it cannot be settled, and a retry
// runs under every policy.
func TestReleasedWithSteps(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.pay("k1", "release")
	record := s.recordOf("k1")
	if v := record.Verdict; record.State != "released" || record.MaySettle || !record.MayForget || v.Gets != "a run of the handler" ||
		!strings.Contains(v.Story, "recorded a step") || len(record.Steps) != 1 || !record.Steps[0].Recorded {
		t.Errorf("the record is %+v, with the verdict %+v", record, v)
	}
	s.wantPage(s.get("/?state=released"), http.StatusOK, s.id("k1"), "released")
	if listed := read[inspector.Records](s, s.get("/", acceptsJSON...), http.StatusOK); len(listed.Records) != 0 {
		t.Errorf("the first page has %+v, want no released key", listed.Records)
	}
	s.pay("k1", "")
	if record := s.recordOf("k1"); record.State != "completed" || record.Attempt != 2 {
		t.Errorf("after the retry the record is %+v", record)
	}
}

// Another process does not know the route: the page does not guess.
func TestVerdictOfAnUnknownRoute(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	newService(t, store).pay("k1", "uncertain")
	s := newService(t, store)
	record := s.recordOf("k1")
	if record.Policy != nil || record.Outlook.Result != "" || record.Verdict.Gets != "409 outcome_unknown or a run of the handler, as the route's policy decides" {
		t.Errorf("the record is %+v, %+v", record.Outlook, record.Verdict)
	}
}

// Only a process with its key sends a sealed response: the others say so.
func TestVerdictOfASealedRecord(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	newService(t, sealedstore.New(store, testkit.NewGCM(1))).pay("k1", "")
	without, other := newService(t, store), newService(t, sealedstore.New(store, testkit.NewGCM(2)))
	testkit.Equal(t, without.recordOf("k1").Verdict.Gets, "that response, 201, from a process with the key of its seal, and 503 from any other", "what a retry gets")
	without.wantPage(without.post("/explain", question("k1", payment)), http.StatusOK, "The record is sealed")
	other.wantPage(other.get("/records/"+other.id("k1")), http.StatusBadGateway, "give it the key of the seal again")
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), inspector.LogLink("https://logs.example.com/?q=record:%s"))
	s.pay("k1", "uncertain")
	for range 3 {
		s.pay("k1", "")
	}
	record := s.recordOf("k1")
	counts := make(map[string]int)
	for _, one := range record.Timeline {
		counts[one.Source+": "+one.Text] = one.Count
	}
	want := map[string]int{
		"record: Claimed, attempt 1": 1, "record: The lease ended": 1,
		"this process: Left abandoned: the outcome is uncertain": 1, "this process: 409 outcome_unknown": 3,
	}
	if !maps.Equal(counts, want) {
		t.Errorf("the timeline is %v, want %v", counts, want)
	}
	testkit.Equal(t, record.LogLink, "https://logs.example.com/?q=record:"+s.id("k1"), "the link to the log")
	s.wantPage(s.get("/records/"+s.id("k1")), http.StatusOK, "record="+s.id("k1"), "<svg", `aria-label="attempt 1 and its lease for `, "Settle it …")
}

func TestSettle(t *testing.T) {
	t.Parallel()
	for found, state := range map[string]string{"happened": "unreplayable", "did-not-happen": ""} {
		s := newService(t, memstore.New())
		s.pay("k1", "uncertain")
		w := s.post("/records/"+s.id("k1")+"/settle", s.changedForm("k1", found))
		location := w.Header().Get("Location")
		if w.Code != http.StatusSeeOther || !strings.HasPrefix(location, "./../../records/"+s.id("k1")+"?done=") {
			t.Fatalf("%s: %d to %q, want the record", found, w.Code, location)
		}
		after := s.get("/records/" + s.id("k1") + "?" + strings.SplitN(location, "?", 2)[1])
		s.wantPage(after, after.Code, "Settled as "+strings.ReplaceAll(strings.Replace(found, "did-", "", 1), "not-happen", "not happen"))
		if state != "" && s.recordOf("k1").State != state {
			t.Errorf("%s: the state is %s, want %s", found, s.recordOf("k1").State, state)
		}
		if state == "" {
			s.wantPage(s.get("/records/"+s.id("k1")), http.StatusNotFound)
		}
		if all := s.log.of(event.SettledByHand); len(all) != 1 || all[0].Operator != "m.ortiz" || all[0].Reason != "INC-2291" {
			t.Errorf("%s: the events are %+v", found, all)
		}
	}
}

func TestSettleIsRefused(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.fill()
	edit := func(key, field, value string) url.Values {
		form := s.changedForm(key, "happened")
		form.Set(field, value)
		return form
	}
	for name, test := range map[string]struct {
		key    string
		form   url.Values
		status int
		text   string
	}{
		"a long reason":     {"abandoned", edit("abandoned", "why", strings.Repeat("x", core.MaxReason+1)), http.StatusUnprocessableEntity, "at most 1000 bytes"},
		"no reason":         {"abandoned", edit("abandoned", "why", " "), http.StatusUnprocessableEntity, "Say why"},
		"another id":        {"abandoned", edit("abandoned", "confirm", "12345678"), http.StatusUnprocessableEntity, "Type the first 8 digits"},
		"no finding":        {"abandoned", edit("abandoned", "found", ""), http.StatusUnprocessableEntity, "Say what you found"},
		"no attempt":        {"abandoned", edit("abandoned", "attempt", ""), http.StatusBadRequest, "names no attempt"},
		"changed meanwhile": {"abandoned", edit("abandoned", "attempt", "2"), http.StatusConflict, "not as you saw it any more"},
		"a running lease":   {"slow", s.changedForm("slow", "did-not-happen"), http.StatusConflict, "The record was not changed"},
		"a finished run":    {"done", s.changedForm("done", "happened"), http.StatusConflict, "The record was not changed"},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.recordOf(test.key).State
			s.wantPage(s.post("/records/"+s.id(test.key)+"/settle", test.form), test.status, test.text)
			testkit.Equal(t, s.recordOf(test.key).State, before, "the state")
		})
	}
	testkit.Equal(t, len(s.log.of(event.SettledByHand)), 0, "events")
}

func TestForget(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.fill()
	s.wantPage(s.post("/records/"+s.id("slow")+"/forget", s.changedForm("slow", "")), http.StatusConflict, "may still be running")
	s.wantPage(s.post("/records/"+s.id("done")+"/forget", url.Values{"attempt": {"1"}}), http.StatusUnprocessableEntity, "Say why")
	if w := s.post("/records/"+s.id("done")+"/forget", s.changedForm("done", "")); w.Code != http.StatusSeeOther {
		t.Fatalf("the status is %d: %s", w.Code, w.Body)
	}
	s.wantPage(s.get("/records/"+s.id("done")+"?done=forgotten"), http.StatusNotFound, "Forgotten by m.ortiz", "INC-2291")
	if all := s.log.of(event.Forgotten); len(all) != 1 || all[0].Operator != "m.ortiz" {
		t.Errorf("the events are %+v", all)
	}
}

func TestReveal(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.pay("k1", "")
	hidden := s.recordOf("k1").Response
	if hidden.Shown || hidden.Body != "" || hidden.Bytes == 0 {
		t.Errorf("before Reveal, the response is %+v", hidden)
	}
	w := s.post("/records/"+s.id("k1")+"/reveal", nil)
	s.wantPage(w, http.StatusOK, "(masked)", "p1", "Location: /payments/p1", `X-Account: <span class="redacted">hidden</span>`)
	for _, secret := range []string{"4111111111111111", "acc-secret", "session=hidden"} {
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("the page shows %s", secret)
		}
	}
	if all := s.log.of(event.Revealed); len(all) != 1 || all[0].Operator != "m.ortiz" {
		t.Errorf("the events are %+v", all)
	}
}

// Case 91: of a body that cannot be masked, no text reaches the JSON of the page.
func TestBodyThatIsNotJSON(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.pay("k1", "text")
	w := s.post("/records/"+s.id("k1")+"/reveal", nil, acceptsJSON...)
	if shown := read[inspector.Record](s, w, http.StatusOK).Response; shown.Shown || shown.Body != "" || shown.Bytes == 0 {
		t.Errorf("the response is %+v, want no body", shown)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), inspector.Redact(func(contentType string, body []byte) []byte {
		return []byte(contentType + " " + strings.ReplaceAll(string(body), "p1", "(payment)\u202e\x1b[2J"))
	}))
	s.pay("k1", "")
	s.wantPage(s.post("/records/"+s.id("k1")+"/reveal", nil), http.StatusOK, `(payment)\u202e\u001b[2J`) // it cannot turn around what the page says, or change a terminal
	shown := read[inspector.Record](s, s.post("/records/"+s.id("k1")+"/reveal", nil, acceptsJSON...), http.StatusOK).Response
	if !strings.HasPrefix(shown.Body, "application/json {") || !strings.Contains(shown.Body, "(payment)") || !strings.Contains(shown.Body, "(masked)") {
		t.Errorf("the body is %q, want one that both have masked", shown.Body)
	}
}

func TestStepsAreNamed(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.pay("k1", "steps")
	testkit.EqualSlices(t, s.recordOf("k1").Steps, []inspector.Step{{Name: "charge", Recorded: true}, {Name: "ship"}}, "the steps")
	w := s.get("/records/" + s.id("k1"))
	s.wantPage(w, http.StatusOK, "cut off: ask the other service", `<span class="yes">recorded</span>`)
	if strings.Contains(w.Body.String(), "receipt-1") {
		t.Error("the page shows the result of a step")
	}
}

// Case 100: a record that was settled by hand says so, on each screen. It has no response and no duration, because the
// operator knows neither.
func TestRecordSettledByHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newService(t, store)
		s.pay("abandoned", "uncertain")
		time.Sleep(54 * time.Second) //nolint:forbidigo // the bubble's clock
		if w := s.post("/records/"+s.id("abandoned")+"/settle", s.changedForm("abandoned", "happened")); w.Code != http.StatusSeeOther {
			t.Fatalf("the status is %d: %s", w.Code, w.Body)
		}
		for name, process := range map[string]*service{"this process": s, "another one": newService(t, store)} {
			record := process.recordOf("abandoned")
			if !record.ByHand || record.Status != 0 || record.Response != nil {
				t.Errorf("%s: the record is %+v, want one that was settled by hand, without a response", name, record.Row)
			}
			pages := process.get("/records/"+s.id("abandoned")).Body.String() + process.get("/?state=all").Body.String() +
				process.post("/explain", question("abandoned", payment)).Body.String()
			for text, want := range map[string]bool{
				`aria-label="attempt 1, abandoned for 54 s`: true, "An operator has settled it: it happened": true, "Settled by hand: it happened": true, ">by hand<": true, "200 OK": false, ">200<": false, "999": false, "took 54 s": false, "streamed": false,
			} {
				testkit.Equal(t, strings.Contains(pages, text), want, "%s: whether the pages have %q", name, text)
			}
		}
	})
}
