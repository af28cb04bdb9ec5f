package inspector

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
)

// Explanation is the data of the screen that explains a retry.
type Explanation struct {
	// Asked says that there was a request to explain. The other fields need it.
	Asked  bool   `json:"asked"`
	Record string `json:"record,omitempty"`
	// State of the record, or empty when there is none.
	State    string  `json:"state,omitempty"`
	Outlook  Outlook `json:"retry"`
	Headline string  `json:"headline,omitempty"`
	Story    string  `json:"story,omitempty"`
	Tone     string  `json:"-"`
	// Members are those of the retry that could be compared. Others differ and have no
	// name that may be shown, and Missing ones are in the first request only.
	Members []Member `json:"members"`
	Others  int      `json:"others"`
	Missing int      `json:"missing"`
	// Remarks tell limits of the comparison.
	Remarks []string `json:"remarks,omitempty"`
	// Endpoint names the route whose policy decides, or is empty.
	Endpoint string       `json:"endpoint,omitempty"`
	Policy   *RoutePolicy `json:"policy,omitempty"`

	Routes []string  `json:"-"`
	Form   retryForm `json:"-"`
}

// Member is one member of a compared request.
type Member struct {
	Name   string `json:"name"`
	Same   bool   `json:"same"`
	Advice string `json:"advice,omitempty"`
}

// retryForm is the form as it was sent. The page shows it again, and keeps it nowhere.
type retryForm struct{ Key, Scope, Target, Route, ContentType, Headers, Body string }

func (p *Page) askExplain(visit) (screen, error) {
	return screen{name: "explain", data: &Explanation{
		Routes: p.patterns(core.Endpoint.String), Form: retryForm{ContentType: "application/json"}, Members: []Member{},
	}}, nil
}

// explain shows the response that a pasted retry would get. No handler runs, and no record
// changes.
func (p *Page) explain(v visit) (screen, error) {
	field := v.PostForm.Get
	filled := retryForm{field("key"), field("scope"), field("target"), field("route"), field("type"), field("headers"), field("body")}
	retry := p.retry(v, strings.TrimSpace(filled.Target))
	retry.Body, retry.Header = []byte(filled.Body), headersOf(filled.Headers)
	if filled.ContentType != "" {
		retry.Header.Set("Content-Type", filled.ContentType)
	}
	x := &Explanation{Asked: true, Routes: p.patterns(core.Endpoint.String), Form: filled, Members: []Member{}}
	if retry.Route, x.Endpoint = p.policyFor(filled.Route, retry); retry.Route == nil {
		x.Remarks = append(x.Remarks, "No route of this process is known to serve this path, so the default policy was taken: choose the route.")
	} else {
		x.Policy = policyOf(retry.Route)
	}
	found, err := p.records.Explain(v.Context(), retry)
	if lines := bytes.ReplaceAll(retry.Body, []byte("\r\n"), []byte("\n")); err == nil && found.Result == event.KeyReused && len(lines) < len(retry.Body) {
		retry.Body = lines // a browser sends each end of a pasted line as CRLF
		found, err = p.records.Explain(v.Context(), retry)
	}
	if err != nil {
		return screen{}, retryFault(err)
	}
	x.fill(&found, &retry)
	return screen{name: "explain", data: x}, nil
}

// fill takes the explanation over in words.
func (x *Explanation) fill(found *core.Explanation, retry *core.Retry) {
	x.Record, x.Outlook, x.Others, x.Missing = found.Record, outlookOf(found.Outlook), found.Others, found.Missing
	if found.Found != nil {
		x.State = stateOf(found.Found)
	}
	x.Headline, x.Tone = headlineOf(found.Outlook)
	x.Story = storyOf(found)
	for _, name := range found.Differs {
		x.Members = append(x.Members, Member{Name: name, Advice: adviceOn(name)})
	}
	for _, name := range found.Same {
		x.Members = append(x.Members, Member{Name: name, Same: true})
	}
	if isJSON(retry.Header.Get("Content-Type")) && len(retry.Body) > 0 && !json.Valid(retry.Body) {
		x.Remarks = append(x.Remarks, "The body is not JSON, although its Content-Type says so: the engine compares it byte by byte.")
	}
	if remark := withoutMembers(found); remark != "" {
		x.Remarks = append(x.Remarks, remark)
	}
	if retry.Route != nil {
		x.Remarks = append(x.Remarks, remarksOn(retry.Route, retry.Method)...)
	}
}

// withoutMembers says why a record's members cannot be named, or "".
func withoutMembers(found *core.Explanation) string {
	switch record := found.Found; {
	case record == nil, found.Sketched, record.State == storage.Expired:
		return ""
	case isSealed(record):
		return "The record is sealed, so the members cannot be named here. A process without the key of its seal responds with 503."
	default:
		return "The record has no sketch of its first request, so the members cannot be named: " +
			"it has no result, an operator has settled it, or the request had no members, too many of them, or counts byte by byte."
	}
}

// remarksOn names what the route decides before it asks for a record.
func remarksOn(route *core.Route, method string) (all []string) {
	declared := route.Policy()
	if route.Observes() {
		all = append(all, "The route only observes: its handler runs in any case, and this is what a guard would do.")
	}
	if !declared.Guards(method) && !slices.Contains(unrouted, method) {
		all = append(all, "The route's policy does not guard "+method+": its handler runs in any case.")
	}
	if declared.SkipIf != nil {
		all = append(all, "The route's policy has a SkipIf, which was not asked: the handler runs in any case where it says so.")
	}
	if declared.KeyField != "" {
		all = append(all, "The route's KeyField was not read: a body whose "+declared.KeyField+" is not the key gets 400 key_invalid.")
	}
	return all
}

func headlineOf(outlook core.Outlook) (text, tone string) {
	switch outlook.Result {
	case event.Execute:
		if outlook.Recovers {
			return "The Recover function is asked, and the handler may run", "flight"
		}
		return "The handler would run", "flight"
	case event.Replay:
		return "The stored response is sent again: " + statusText(outlook.Status), "good"
	case event.OutcomeUnknown, event.Unavailable:
		return statusText(outlook.Status) + ", " + outlook.Code, "bad"
	default:
		return statusText(outlook.Status) + ", " + outlook.Code, "warn"
	}
}

func storyOf(found *core.Explanation) string {
	record := found.Found
	switch {
	case found.Result == event.Refused:
		return "The engine refuses the request before it asks the store."
	case found.Result == event.Unavailable:
		return "This process takes no new keys at the moment."
	case record == nil:
		return "There is no record for this key: it never arrived, was released, has expired, or belongs to another scope, method, path or service."
	case found.Result == event.KeyReused && found.Sketched:
		return "The record's first request had another payload: " + plural(len(found.Differs)+found.Others+found.Missing, "member differs.", "members differ.")
	case found.Result == event.KeyReused:
		return "The record's first request had another payload."
	case record.State == storage.InProgress, record.State == storage.Released:
		return attemptStory(record)
	case record.State == storage.Expired:
		return "The key was used, and its response has expired."
	case isByHand(record):
		return "The request repeats the record's first request, which an operator has settled by hand: it happened."
	default:
		return "The request repeats the record's first request, which ended with " + statusText(record.Status) + "."
	}
}

// attemptStory is the story of an attempt without a result.
func attemptStory(record *storage.Record) string {
	attempt := "Attempt " + number(int(record.Attempt))
	switch {
	case record.State == storage.Released:
		return attempt + " recorded a step, and then released the key."
	case record.Abandoned():
		return attempt + " was abandoned: its lease has ended without a result."
	default:
		return attempt + " is in flight" + on(record) + "."
	}
}

// clockName is a name of a member that changes with each attempt.
var clockName = regexp.MustCompile(`(?i)(time|stamp|date|nonce|clock|trace|request_?id|attempt|retry)|(_at|At|^ts)$`)

func adviceOn(name string) string {
	if clockName.MatchString(name) {
		return "Looks like a clock or a number of the attempt. If it may change in a retry: ExcludeFields=" + name
	}
	return "Another operation: it needs a new key."
}

// headersOf reads lines such as "X-Api-Version: 2".
func headersOf(lines string) http.Header {
	h := make(http.Header)
	for line := range strings.Lines(lines) {
		if name, value, found := strings.Cut(line, ":"); found {
			h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	return h
}

// policyFor returns the route that an operator has chosen, or else the one that serves the
// path: of several, the one whose pattern names most of it. A route can be chosen as the list
// shows it, too.
func (p *Page) policyFor(chosen string, retry core.Retry) (*core.Route, string) {
	if chosen != "" {
		route, e := endpointNamed(p.engine, chosen)
		if route == nil {
			return nil, ""
		}
		return route, e.String()
	}
	var found *core.Route
	var name, best string
	for _, route := range p.engine.Routes() {
		for _, e := range route.Endpoints() {
			if named := closeness(e); named > best && serves(e, retry.Method, retry.Target) {
				found, name, best = route, e.String(), named
			}
		}
	}
	return found, name
}

// closeness is the higher, the earlier a pattern has text where another one has a parameter:
// a 2 for each segment of text, 1 for a parameter, and 0 for the rest of a path.
func closeness(e core.Endpoint) string {
	var all strings.Builder
	for _, segment := range segmentsOf(e) {
		switch {
		case isRest(segment):
			all.WriteByte('0')
		case isParameter(segment):
			all.WriteByte('1')
		default:
			all.WriteByte('2')
		}
	}
	return all.String()
}

// segmentsOf returns the segments of a pattern of net/http, chi or gin. net/http's "/files/"
// serves all paths below it.
func segmentsOf(e core.Endpoint) []string {
	pattern, ofMux := strings.CutPrefix(e.Pattern, e.Method+" ")
	if at := strings.Index(pattern, "/"); at > 0 { // a host
		pattern = pattern[at:]
	}
	if ofMux && strings.HasSuffix(pattern, "/") {
		pattern += "*"
	}
	return strings.Split(strings.TrimSuffix(pattern, "{$}"), "/")
}

func isRest(segment string) bool {
	return strings.HasPrefix(segment, "*") || strings.HasSuffix(segment, "...}")
}

func isParameter(segment string) bool {
	return strings.HasPrefix(segment, "{") || strings.HasPrefix(segment, ":")
}

// unrouted are the methods of functions and tools, which have a name and no path.
var unrouted = []string{storage.MethodCall, storage.MethodTool}

// serves reports whether a pattern of net/http, chi or gin can serve a path.
func serves(e core.Endpoint, method, target string) bool {
	if e.Method != method || slices.Contains(unrouted, method) {
		return e.Method == method && strings.TrimPrefix(e.Pattern, e.Method+" ") == target
	}
	path, _, _ := strings.Cut(target, "?")
	want, got := segmentsOf(e), strings.Split(path, "/")
	for i, segment := range want {
		switch {
		case isRest(segment):
			return len(got) > i
		case i >= len(got), isParameter(segment) && got[i] == "", !isParameter(segment) && segment != got[i]:
			return false
		}
	}
	return len(want) == len(got)
}
