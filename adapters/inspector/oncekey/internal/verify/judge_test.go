package verify

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
)

// got is a response with a header of name and value.
func got(status int, body string, header ...string) *Exchange {
	e := &Exchange{Status: status, Body: []byte(body), Header: make(http.Header)}
	for i := 0; i+1 < len(header); i += 2 {
		e.Header.Set(header[i], header[i+1])
	}
	return e
}

// Verdicts about responses that the servers of the command's tests do not give.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	lost := &Exchange{cut: true}
	none := &Exchange{failed: "EOF"}
	mark := []string{"Idempotent-Replayed", "true"}
	for name, row := range map[string]struct {
		judge     judge
		exchanges []*Exchange
		want      Result
		says      string
	}{
		"no response":                    {responded(once), []*Exchange{got(201, "a"), none}, Unknown, "request 2: EOF"},
		"no success":                     {responded(once), []*Exchange{got(401, ""), got(401, "")}, Unknown, "no request gets 2xx"},
		"one request":                    {responded(once), []*Exchange{got(201, "")}, Unknown, "not all"},
		"first fails":                    {afterFirst(replays), []*Exchange{got(500, ""), got(201, "")}, Unknown, "first request gets 500"},
		"409 to each retry":              {afterFirst(replays), []*Exchange{got(201, "a"), got(409, "")}, Unknown, "409 to all"},
		"a rate limit":                   {afterFirst(replays), []*Exchange{got(201, "a"), got(429, "")}, Unknown, "429"},
		"another body":                   {afterFirst(replays), []*Exchange{got(201, "a"), got(201, "b")}, Broken, "another body"},
		"a redirect of the retry":        {afterFirst(replays), []*Exchange{got(201, "a"), got(302, "", "Location", "/x")}, Broken, "302 to /x"},
		"mark of another value":          {afterFirst(marks), []*Exchange{got(201, "a"), got(201, "a", "Idempotent-Replayed", "yes")}, Broken, "yes"},
		"mark of the first response too": {afterFirst(marks), []*Exchange{got(201, "a", mark...), got(201, "a", mark...)}, Broken, "first response"},
		"mark without a replay":          {afterFirst(marks), []*Exchange{got(201, "a"), got(409, "")}, Unknown, "no replay"},
		"unrelated to another payload":   {responded(refusesOther), []*Exchange{got(201, "a"), got(503, "")}, Unknown, "503"},
		"limited, another payload":       {afterFirst(refusesWith(422)), []*Exchange{got(201, "a"), got(429, "")}, Unknown, "429"},
		"both payloads fail":             {refusesOther, []*Exchange{got(409, "a"), got(422, "")}, Unknown, "422"},
		"lost, and marked":               {responded(survivesLoss), []*Exchange{lost, got(201, "a", mark...)}, Kept, "marked"},
		"lost, and not marked":           {responded(survivesLoss), []*Exchange{lost, got(201, "a")}, Unknown, "a count of effects"},
		"lost, another status":           {responded(survivesLoss), []*Exchange{{cut: true, Status: 201}, got(200, "a", mark...)}, Broken, "200"},
		"lost, then refused":             {responded(survivesLoss), []*Exchange{{cut: true, Status: 201}, got(422, "")}, Broken, "422"},
		"lost, then 409":                 {responded(survivesLoss), []*Exchange{{cut: true, Status: 201}, got(409, "")}, Unknown, "409 to"},
		"lost, then 503":                 {responded(survivesLoss), []*Exchange{{cut: true, Status: 201}, got(503, "")}, Unknown, "503"},
		"no duplicate refused":           {responded(conflicts), []*Exchange{got(201, "a"), got(201, "a")}, Unknown, "no duplicate"},
		"a duplicate gets 500":           {responded(conflicts), []*Exchange{got(201, "a"), got(500, "")}, Unknown, "no duplicate"},
		"no key, 500":                    {requiresKey(true), []*Exchange{got(500, "")}, Unknown, "500"},
		"no key, no response":            {requiresKey(true), []*Exchange{none}, Unknown, "EOF"},
		"no key, where none is needed":   {requiresKey(false), []*Exchange{got(201, "")}, Unknown, "requires no key"},
		"long key, 429":                  {accepts, []*Exchange{got(429, "")}, Unknown, "429"},
		"too long key, no response":      {refuses, []*Exchange{none}, Unknown, "EOF"},
		"the other URL is not there":     {scopedToPath, []*Exchange{got(201, "a"), got(404, ""), got(404, "")}, Unknown, "does not take"},
		"the other URL: equal bodies":    {scopedToPath, []*Exchange{got(201, "a"), got(201, "a"), got(201, "a")}, Unknown, "a run, or a replay"},
		"the other URL: marked":          {scopedToPath, []*Exchange{got(201, "a"), got(201, "a", mark...), got(201, "a")}, Broken, "201"},
		"GET gets 500":                   {ignoresKeyOnGet, []*Exchange{got(201, ""), got(500, ""), got(200, "")}, Unknown, "500"},
		"GET is replayed":                {ignoresKeyOnGet, []*Exchange{got(201, ""), got(200, ""), got(200, "", mark...)}, Broken, "replay"},
		"malformed is taken":             {forgetsInvalid, []*Exchange{got(201, ""), got(409, "")}, Unknown, "takes a malformed"},
		"500 with another body":          {forgetsErrors, []*Exchange{got(500, "a"), got(500, "b")}, Kept, "500"},
		"500 with an equal body":         {forgetsErrors, []*Exchange{got(500, "a"), got(500, "a")}, Unknown, "a run, or a replay"},
		"the failing body succeeds":      {keepsErrors, []*Exchange{got(201, "a"), got(201, "a")}, Unknown, "the failing body gets 201"},
		"500, then in progress":          {keepsErrors, []*Exchange{got(500, "a"), got(409, "")}, Unknown, "409"},
		"a code in no JSON":              {hasCode, []*Exchange{got(400, "<html>")}, Broken, "<html>"},
		"effects without one":            {once, []*Exchange{got(201, "a"), got(201, "b", mark...)}, Kept, "one response"},
	} {
		s := &Seen{hide: func(text string) string { return text }, by: map[Probe]*Observation{
			PayloadsAlone: {}, EqualRetry: {Exchanges: []*Exchange{got(201, "a"), got(201, "a")}},
		}}
		if found := row.judge(s, &Observation{Probe: NoKey, Exchanges: row.exchanges}); found.result != row.want || !strings.Contains(found.evidence, row.says) {
			t.Errorf("%s: %s, %s; want %s, %s", name, found.result, found.evidence, row.want, row.says)
		}
	}
}

// A server that takes each payload once says nothing about the key of a request that it refuses.
func TestPayloadThatIsTakenOnce(t *testing.T) {
	t.Parallel()
	s := &Seen{hide: func(text string) string { return text }, by: map[Probe]*Observation{
		PayloadsAlone: {}, EqualRetry: {Exchanges: []*Exchange{got(201, "a"), got(201, "a")}},
		Duplicates: {Exchanges: []*Exchange{got(409, "taken"), got(409, "taken")}},
	}}
	for status, want := range map[int][2]Result{409: {Unknown, Unknown}, 400: {Broken, Kept}} {
		only := &Observation{Probe: LongestKey, Exchanges: []*Exchange{got(status, "")}}
		testkit.Equal(t, [2]Result{accepts(s, only).result, refuses(s, only).result}, want, "%d: accepts and refuses", status)
	}
}

// A retry waits for the request in progress, and stops after some tries.
func TestRetryWaits(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		refusals int64
		status   int
		requests int
	}{{0, 201, 1}, {2, 201, 3}, {100, 409, mostRetries}} {
		var n atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n.Add(1) <= row.refusals {
				w.WriteHeader(http.StatusConflict)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}))
		p := &probing{target: &Target{URL: server.URL, Method: http.MethodPost, KeyHeader: "Idempotency-Key"}, sender: &sender{timeout: time.Minute, left: 100}, into: new(Observation)}
		err := p.retry(t.Context(), "k")
		server.Close()
		if err != nil || len(p.into.Exchanges) != 1 || p.into.Exchanges[0].Status != row.status || p.into.Requests != row.requests {
			t.Errorf("%d refusals: %+v (%v), want %d after %d requests", row.refusals, p.into, err, row.status, row.requests)
		}
	}
	for pause, want := range map[string]time.Duration{"": time.Second / 2, "0": time.Second / 2, "2": 2 * time.Second, "86400": 5 * time.Second, "-1": time.Second / 2, "soon": time.Second / 2} {
		testkit.Equal(t, pauseOf(got(409, "", "Retry-After", pause)), want, "Retry-After: %s", pause)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
