package verify

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Probe names a probe. Each request has the name in its User-Agent, unless the target's header
// has one.
type Probe string

// The probes, see the table.
const (
	EqualRetry       Probe = "equal-retry"
	NoKey            Probe = "no-key"
	PayloadsAlone    Probe = "payloads-alone"
	MemberOrder      Probe = "member-order"
	NumberSpelling   Probe = "number-spelling"
	NullMember       Probe = "null-member"
	ArrayOrder       Probe = "array-order"
	OtherAfter       Probe = "other-payload"
	OtherDuring      Probe = "other-payload-at-once"
	Duplicates       Probe = "duplicates"
	CutInResponse    Probe = "cut-in-response"
	CutBefore        Probe = "cut-before-response"
	LongestKey       Probe = "key-of-255"
	TooLongKey       Probe = "key-of-256"
	OtherEndpoint    Probe = "other-url"
	KeyOnGet         Probe = "key-on-get"
	MalformedPayload Probe = "malformed-first"
	ServerError      Probe = "server-error"
)

// cut is the moment at which the client gives a connection up.
type cut uint8

const (
	never          cut = iota
	beforeResponse     // closes the connection when the request is written
	inResponse         // resets the connection when the status and the header are read
)

// Exchange is one request and its response.
type Exchange struct {
	Status int // 0: no whole response came, see failed
	Header http.Header
	Body   []byte // at most 1 MiB

	key    string
	sent   string // the body of the request
	failed string // why there is no response
	cut    bool   // the client has given the connection up
}

// Observation is the behaviour of the server in one probe.
type Observation struct {
	Probe     Probe
	Skipped   string // why the probe was not made, or ""
	Exchanges []*Exchange
	Effects   int64 // effects during the probe, if Counted
	Counted   bool
	Requests  int // sent, with retries that Exchanges does not have
}

// Seen is the result of all probes.
type Seen struct {
	Observations []*Observation
	Stopped      string // why not all probes were made, or ""

	hide func(string) string
	by   map[Probe]*Observation
}

func (e *Exchange) succeeded() bool { return e.Status/100 == 2 }

// replayHeaders are the names under which servers mark a replay.
var replayHeaders = []string{"Idempotent-Replayed", "Idempotency-Replayed", "X-Idempotent-Replay", "X-Idempotent-Replayed", "X-Idempotency-Replayed"}

// isMarked reports whether the response has such a mark.
func (e *Exchange) isMarked() bool {
	return slices.ContainsFunc(replayHeaders, func(name string) bool {
		text := e.Header.Get(name)
		return text != "" && !strings.EqualFold(text, "false")
	})
}

// isReplay reports whether the server says that the response is a replay. The word of a server that has marked the first
// response of all counts for nothing.
func (s *Seen) isReplay(e *Exchange) bool {
	first := s.by[EqualRetry].Exchanges
	return e.isMarked() && len(first) > 0 && !first[0].isMarked()
}

func (e *Exchange) summary(s *Seen) string {
	switch {
	case e.cut && e.Status == 0:
		return "cut"
	case e.cut:
		return fmt.Sprintf("%d cut", e.Status)
	case e.Status == 0:
		return s.text([]byte(e.failed))
	case s.isReplay(e):
		return fmt.Sprintf("%d replay", e.Status)
	default:
		return strconv.Itoa(e.Status)
	}
}

// mostShown is the number of characters of a server's text in evidence.
const mostShown = 80

// excerpt returns the status of a response, and the begin of its body.
func (s *Seen) excerpt(e *Exchange) string {
	switch location := e.Header.Get("Location"); {
	case e.Status == 0:
		return s.text([]byte(e.failed))
	case e.Status/100 == 3 && location != "":
		return fmt.Sprintf("%d to %s", e.Status, s.text([]byte(location)))
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, s.text(e.Body)))
}

// text returns the first characters of a server's text, without secrets: they are hidden before
// the text is cut.
func (s *Seen) text(of []byte) string {
	runes := []rune(strings.Join(strings.Fields(s.hide(string(of))), " "))
	if len(runes) <= mostShown {
		return string(runes)
	}
	return string(runes[:mostShown]) + "…"
}
