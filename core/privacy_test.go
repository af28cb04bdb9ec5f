package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// secrets are values that no log line and no problem may contain.
var secrets = []string{
	"4242424242424242", "4242 4242 4242 4242", "4242-4242-4242-4242", "bob@example.com", "+49 171 5550123", "017155501234",
	"DE89370400440532013000", "550e8400-e29b-41d4-a716-446655440000", "Tr0ub4dor&3", "correct horse battery staple",
	"sk_live_51H8xyzAb9QqW2eRtY", "c2VjcmV0LXRva2VuLTEyMzQ=", "c2VjcmV0IHRva2VuIQ==", "078-05-1120", "1234", "Zoë", "7f3a9c0d51be",
}

// payloads are bodies with a secret in every place that a format has.
var payloads = []string{
	"%s", "%s=1", "a=%s", "a=1&%s", "a=1&%s=2", "cards[%s]=1", "=%s",
	`{"card":"%s"}`, `{"%s":1}`, `{"cards":{"%s":{"cvv":1}}}`, `["%s"]`, `{"a":[{"%s":[1]}]}`, `{"card":"%s"`, `"%s"`,
	`<order card="%[1]s"><number>%[1]s</number><%[1]s/></order>`, `<?xml version="1.0"?><a>%s</a>`,
	"card: %[1]s\n%[1]s: card\n", "card,cvv\n%s,1\n",
	"--b\r\nContent-Disposition: form-data; name=\"%[1]s\"; filename=\"%[1]s\"\r\n\r\n%[1]s\r\n--b--",
	"--b\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Type: text/%[1]s\r\n\r\n%[1]s=%[1]s\r\n--b--",
}

var claimedTypes = []string{
	"", "application/json", "application/vnd.api+json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b",
	"text/plain", "text/xml", "application/xml", "application/octet-stream", "nonsense", "application/json; charset=latin1; a=b",
}

// outside is the view of one engine's clients and log readers.
type outside struct {
	log     bytes.Buffer
	handler http.Handler
}

func newOutside(tb testing.TB, handler http.HandlerFunc) *outside {
	tb.Helper()
	o := &outside{}
	logger := slog.New(slog.NewTextHandler(&o.log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutNoise}))
	engine, err := core.New(memstore.New(), core.ScopeBy(bearer), core.WithDiffers(), core.WithObserver(event.Log(logger)))
	testkit.Must(tb, err)
	// A busy machine must not put off a settlement: its lines would come while the log is read.
	o.handler = engine.Handler(handler, policy.LockTTL(time.Hour), policy.StoreTimeout(time.Minute))
	return o
}

// withoutNoise drops numbers in which a short secret could appear by chance.
func withoutNoise(_ []string, attr slog.Attr) slog.Attr {
	if attr.Key == slog.TimeKey || attr.Key == "duration_ms" {
		return slog.Attr{}
	}
	return attr
}

// send returns the response's body if it is a problem, and everything logged so far.
func (o *outside) send(r *http.Request) (problem string, log string) {
	w := testkit.Serve(o.handler, r)
	if w.Header().Get("Content-Type") == "application/problem+json" {
		problem = w.Body.String()
	}
	return problem, o.log.String()
}

func claim(tb testing.TB, contentType, body string) *http.Request {
	tb.Helper()
	r := newPost(tb.Context(), "k", body)
	r.Header.Del("Content-Type")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return r
}

// checkPrivate checks that a payload that differs from the key's first payload leaves
// no trace of the secret, with the secret in either payload.
func checkPrivate(tb testing.TB, secret, contentType, payload, query string) {
	tb.Helper()
	for _, bodies := range [][2]string{{`{"amount":1}`, payload}, {payload, `{"amount":1}`}, {payload, payload + " "}} {
		o := newOutside(tb, created)
		for i, body := range bodies {
			r := claim(tb, contentType, body)
			if i == 1 {
				r.URL.RawQuery = query
			}
			problem, log := o.send(r)
			for _, text := range []string{problem, log} {
				if strings.Contains(text, secret) || strings.Contains(text, strconv.Quote(secret)[1:len(secret)]) {
					tb.Errorf("%q as %q, query %q, shows the secret: %s", body, contentType, query, text)
				}
			}
		}
	}
}

// Case 43: a log line and a problem contain no value of a payload, for any content type
// that the client claims.
func TestPayloadIsNeverShown(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	for _, contentType := range claimedTypes {
		t.Run(contentType, func(t *testing.T) {
			t.Parallel()
			for _, secret := range secrets {
				for _, payload := range payloads {
					checkPrivate(t, secret, contentType, fmt.Sprintf(payload, secret), "")
				}
				for _, query := range []string{secret, secret + "=1", "a=" + secret, "a=1&" + secret + "=2"} {
					checkPrivate(t, secret, contentType, "{}", strings.ReplaceAll(query, " ", "%20"))
				}
			}
		})
	}
}

// Case 43: a number of 16 digits stays unseen wherever a fuzzer puts it.
func FuzzPayloadIsNeverShown(f *testing.F) {
	const secret = "4242424242424242"
	for i, payload := range payloads {
		before, after, _ := strings.Cut(strings.ReplaceAll(payload, "%[1]s", "%s"), "%s")
		f.Add(before, strings.ReplaceAll(after, "%s", secret), claimedTypes[i%len(claimedTypes)], "a=1")
	}
	f.Fuzz(func(t *testing.T, before, after, contentType, query string) {
		if strings.ContainsAny(contentType, "\r\n") {
			return
		}
		checkPrivate(t, secret, contentType, before+secret+after, query+secret)
	})
}

// Case 43: names are still shown, and the other members are counted.
func TestOtherMembersAreCounted(t *testing.T) {
	t.Parallel()
	type test struct{ contentType, first, second, log, problem string }
	testkit.Each(t, map[string]test{
		"a name":            {"application/json", `{"sentAt":1}`, `{"sentAt":2}`, "differs=[sentAt] missing=0", `"differs":["sentAt"]`},
		"JSON as a form":    {"application/x-www-form-urlencoded", `{"card":"4242"}`, `{"card":"4343"}`, "differs=[] others=1 missing=1", `"others":1`},
		"a name and a card": {"application/json", `{"sentAt":1}`, `{"sentAt":2,"4242424242424242":3}`, "differs=[sentAt] others=1", `"differs":["sentAt"],"others":1`},
		"in a map by card":  {"application/json", `{"cards":{}}`, `{"cards":{"4242424242424242":{"cvv":1}}}`, "differs=[cards.*.cvv]", `"differs":["cards.*.cvv"]`},
		"text as a form":    {"application/x-www-form-urlencoded", "hunter2", "hunter3", "differs=[] others=1", `"others":1`},
	}, func(t *testing.T, test test) {
		o := newOutside(t, created)
		o.send(claim(t, test.contentType, test.first))
		problem, log := o.send(claim(t, test.contentType, test.second))
		if !strings.Contains(log, test.log) || !strings.Contains(problem, test.problem) {
			t.Errorf("logged %s\nproblem %s\nwant %s and %s", log, problem, test.log, test.problem)
		}
	})
}

// Case 43: a path without a known pattern may name a card or a person.
func TestUnknownPathShowsNoValue(t *testing.T) {
	t.Parallel()
	o := newOutside(t, created)
	r := newPost(t.Context(), "k", payment)
	r.URL.Path = "/v1/cards/4242424242424242/users/bob@example.com/charge"
	r.RequestURI = r.URL.Path
	if _, log := o.send(r); !strings.Contains(log, `endpoint="POST /v1/cards/*/users/*/charge"`) {
		t.Errorf("logged %s", log)
	}
}

// Case 43: the text of an error from a function often quotes its input. The log
// names its type, and the engine's own causes.
func TestErrorsOfFunctionsAreLoggedByType(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	engine := engineOf(t, memstore.New(), core.WithObserver(event.Log(slog.New(slog.NewTextHandler(&log, nil)))))
	call := core.Call{Scope: "orders", Name: "charge", Key: "k"}
	_, _, err := core.Do(t.Context(), engine, call, func(context.Context) (int, error) { return strconv.Atoi("4242 4242") })
	if !errors.Is(err, strconv.ErrSyntax) {
		t.Fatalf("Do returned %v", err)
	}
	call.Input = unencodable{}
	if _, _, err = core.Do(t.Context(), engine, call, func(context.Context) (int, error) { return 0, nil }); err == nil {
		t.Fatal("an input that cannot be encoded was accepted")
	}
	for _, want := range []string{"error=\"*strconv.NumError: *errors.errorString\"", `Call.Input of \"charge\" cannot be encoded: *json.MarshalerError`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "4242") {
		t.Errorf("the input is logged: %s", log.String())
	}
}

type unencodable struct{}

func (unencodable) MarshalJSON() ([]byte, error) { return nil, errors.New("4242 is no card") }
