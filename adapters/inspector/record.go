package inspector

import (
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// Record is the data of the screen of one record.
type Record struct {
	Row
	Found bool `json:"found"`
	// Verdict has the outcome and the response of a retry, in sentences.
	Verdict Verdict `json:"verdict"`
	// Outlook says the same for programs: the result of a retry is an event.Result, and
	// empty where it depends on an unknown policy.
	Outlook Outlook `json:"retry"`
	KeyHash string  `json:"keyHash,omitempty"`
	Trace   string  `json:"trace,omitempty"`
	// Fingerprint is empty for a record that is not there.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Members is the number of members in the record's sketch.
	Members int `json:"members"`
	// Policy is the route's, or nil where no route of this process is known to have
	// made the record.
	Policy *RoutePolicy `json:"policy,omitempty"`
	// Derived are the downstream keys of the names that the service has listed.
	Derived []Derivation `json:"derived,omitempty"`
	// Steps are those of a record in progress or released (core.Step), without their results.
	Steps []Step `json:"steps,omitempty"`
	// Response is nil for a record without one: in progress, released, settled by hand.
	Response *Response `json:"response,omitempty"`
	Timeline []Moment  `json:"timeline"`
	// RememberedSince is the time from which on this process remembers events. Zero: it
	// remembers none.
	RememberedSince time.Time `json:"rememberedSince,omitzero"`
	LogLink         string    `json:"logLink,omitempty"`
	// MaySettle, MayForget and MayReveal say which changes the record's state and the
	// operator's rights allow.
	MaySettle bool `json:"maySettle"`
	MayForget bool `json:"mayForget"`
	MayReveal bool `json:"mayReveal"`

	Lane *lane `json:"-"`
	Form form  `json:"-"`
	// Notice is about a form: the change that was made, or the reason for none.
	Notice string `json:"notice,omitempty"`
}

// Outlook is core.Outlook for JSON.
type Outlook struct {
	Result   string `json:"result"`
	Code     string `json:"code,omitempty"`
	Status   int    `json:"status,omitempty"`
	Recovers bool   `json:"recovers,omitempty"`
}

// Step is one step of a handler. One that is not recorded runs, or was cut off.
type Step struct {
	Name     string `json:"name"`
	Recorded bool   `json:"recorded"`
}

// Derivation is a key that the handler derived for another service.
type Derivation struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// storageKeySize is the length of a record's id.
const storageKeySize = 64

func isRecordID(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil && len(text) == storageKeySize && strings.ToLower(text) == text
}

// find looks a record up by its id, or by the key as the client sent it. The browser then
// goes to the record's own address, which names neither the key nor the scope.
func (p *Page) find(v visit) (screen, error) {
	key := strings.TrimSpace(v.PostForm.Get("key"))
	id := key
	switch target := strings.TrimSpace(v.PostForm.Get("target")); {
	case key == "":
		return screen{}, fault(http.StatusBadRequest, "There is no key to find", "Give the key as the client sent it, or a record's id from the log.")
	case target == "" && isRecordID(key):
	case target == "":
		return screen{}, fault(http.StatusBadRequest, "A key alone does not name a record",
			"Give its scope, and its method and path such as POST /payments, too. A record's id of 64 hex digits needs nothing else.")
	default:
		var err error
		if id, err = p.records.StorageKey(p.retry(v, target)); err != nil {
			return screen{}, retryFault(err)
		}
	}
	shown, err := p.show(v, id, false)
	if err != nil {
		return screen{}, err
	}
	shown.redirect = "records/" + id
	return shown, nil
}

// retry returns the request that a form describes.
func (p *Page) retry(v visit, target string) core.Retry {
	method, path, named := strings.Cut(target, " ")
	if !named || strings.HasPrefix(method, "/") {
		method, path = http.MethodPost, target
	}
	scope := v.PostForm.Get("scope")
	if scope == "" {
		scope, _ = core.SharedScope(v.Request)
	}
	retry := core.Retry{Scope: scope, Method: strings.ToUpper(method), Target: strings.TrimSpace(path), Key: v.PostForm.Get("key")}
	if retry.Method != storage.MethodCall { // the key of core.Do is any text
		retry.Key = strings.TrimSpace(retry.Key)
	}
	return retry
}

func (p *Page) record(v visit) (screen, error) {
	shown, err := p.show(v, v.PathValue("id"), false)
	if data, isRecord := shown.data.(*Record); isRecord {
		data.Notice = notices[v.URL.Query().Get("done")]
	}
	return shown, err
}

func (p *Page) reveal(v visit) (screen, error) { return p.show(v, v.PathValue("id"), true) }

// show returns the screen of a record, and reports the event revealed for a body.
func (p *Page) show(v visit, id string, body bool) (screen, error) {
	if !isRecordID(id) {
		return screen{}, fault(http.StatusNotFound, "This is no record's id", "An id has 64 hex digits in lower case: record= in the log.")
	}
	record, err := p.lookUp(v, id, body)
	if err != nil {
		return screen{}, err
	}
	shown := p.describe(v, id, record, body)
	if record == nil {
		return screen{name: "absent", status: http.StatusNotFound, data: shown}, nil
	}
	return screen{name: "record", data: shown}, nil
}

func (p *Page) lookUp(v visit, id string, body bool) (*storage.Record, error) {
	if body {
		return p.records.Reveal(v.Context(), id, core.ByHand{Operator: v.operator.Name})
	}
	return p.records.Lookup(v.Context(), id)
}

// describe returns the data of a record's screen.
func (p *Page) describe(v visit, id string, record *storage.Record, body bool) *Record {
	events := p.events.of(id)
	shown := &Record{Row: Row{Record: id}, RememberedSince: p.events.from()}
	if p.logLink != "" {
		shown.LogLink = strings.Replace(p.logLink, "%s", id, 1)
	}
	if record == nil {
		shown.Timeline = timeline(nil, events)
		shown.Outlook = outlookOf(p.records.Outlook(nil, nil))
		return shown
	}
	route := routeOf(p.engine, record.Origin.Route)
	outlook := p.records.Outlook(record, route)
	shown.Row, shown.Found = rowIn(p.engine, endpointsOf(p.engine), id, record), true
	shown.Requests = p.events.asked([]Row{shown.Row})[id]
	shown.KeyHash, shown.Trace, shown.Fingerprint = record.Origin.KeyHash, record.Origin.Trace, record.Fingerprint
	shown.Members = max(0, (len(record.Sketch)-sketchHeader)/sketchMember)
	var declared *policy.Policy
	if route != nil {
		own := route.Policy()
		declared = &own
		shown.Policy = policyOf(route)
	}
	for _, name := range p.derived {
		shown.Derived = append(shown.Derived, Derivation{name, core.DerivedKey(id, name)})
	}
	steps, _ := p.records.Steps(record) // steps of another form are not named
	for _, step := range steps {
		shown.Steps = append(shown.Steps, Step(step))
	}
	shown.Outlook = outlookOf(outlook)
	shown.Verdict = verdictOf(record, declared, outlook, shown.Requests)
	shown.Response = p.responseOf(record, body)
	shown.Timeline = timeline(record, events)
	shown.Lane = laneOf(record, events)
	run := p.runOf(id)
	if run != nil && run.Unsettled > 0 {
		shown.Verdict.wait(run)
	}
	isOpen := record.State == storage.InProgress
	shown.MaySettle = record.Abandoned() && run == nil && v.operator.may(Settle)
	shown.MayForget = !isOpen && v.operator.may(Settle)
	shown.MayReveal = len(record.Body) > 0 && v.operator.may(Reveal)
	return shown
}

// The sizes of a sketch (fingerprint.Reading.AppendSketch): its header, and each member.
const (
	sketchHeader = 2
	sketchMember = 6
)

func outlookOf(o core.Outlook) Outlook {
	return Outlook{string(o.Result), o.Code, o.Status, o.Recovers}
}

// retryFault tells an invalid key or path from the store's errors.
func retryFault(err error) error {
	if errors.Is(err, core.ErrInvalidRetry) {
		return fault(http.StatusBadRequest, "The key or the path is not valid", err.Error())
	}
	return err
}

// form is a form as an operator has filled it in, with its faults.
type form struct {
	Found, Why, Confirm                string
	FoundFault, WhyFault, ConfirmFault string
}

// Faulty reports whether the form has faults.
func (f form) Faulty() bool { return f.FoundFault+f.WhyFault+f.ConfirmFault != "" }

// notices are the sentences after a change.
var notices = map[string]string{
	"happened":     "Settled as happened. Retries get 409 not_replayable, and never run.",
	"not-happened": "Settled as not happened. The next retry runs the handler.",
	"forgotten":    "Forgotten. The next request with this key runs the handler.",
}
