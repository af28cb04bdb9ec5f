package core

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
)

// Retry is a request that an operator asks about. It is never sent and never run.
type Retry struct {
	// Route has the policy. Nil means the default policy.
	Route *Route
	// Scope is the text that the engine's Scope returns for the client.
	Scope string
	// Method and Target are the request's: "POST" and "/payments?channel=app". For a
	// call of Do they are storage.MethodCall and the function's name, for a tool of an MCP
	// server storage.MethodTool and the tool's name.
	Method, Target string
	// Key is the idempotency key as the client sent it, raw or in quotes.
	Key string
	// Header has the Content-Type, the headers that the policy includes, and the
	// Repeatability-First-Sent of a policy with a KeyAge.
	Header http.Header
	// Body of the request. For a tool it is the arguments without the key, as JSON.
	Body []byte
}

// Outlook says how the engine would decide about a retry.
type Outlook struct {
	// Result is the decision: Execute, Replay, Refused, Unavailable, or the one that is
	// named after Code. Empty where the policy decides and is not known.
	Result event.Result
	// Code is the problem's, or "".
	Code string
	// Status of the response; zero where the handler would run.
	Status int
	// Recovers says for Execute that the policy's RecoverFunc is called first.
	Recovers bool
}

// Explanation says why a retry would get its response.
type Explanation struct {
	Outlook
	// Record is the storage key.
	Record string
	// Found is the record, or nil.
	Found *storage.Record
	// Sketched says that the members of the first request are known. Only then Differs,
	// Same, Others and Missing say something (see fingerprint.Reading.Differences).
	Sketched        bool
	Differs, Same   []string
	Others, Missing int
}

// StorageKey returns the storage key of a retry. The error wraps ErrInvalidRetry.
func (i *Inspector) StorageKey(retry Retry) (string, error) {
	a, _, err := i.admit(retry)
	if err != nil {
		return "", err
	}
	return a.record, nil
}

// Explain returns the decision about a retry. No handler runs, and the store's records do
// not change. For a key of another format, or without a time where the policy has a KeyAge,
// or a body that is too large, the Result is Refused. A limit of WithScopeLimit is not asked,
// so the request may get scope_limited where the Result is Execute. An error is the store's,
// or wraps ErrInvalidRetry.
func (i *Inspector) Explain(ctx context.Context, retry Retry) (Explanation, error) {
	a, input, err := i.admit(retry)
	if err != nil {
		return Explanation{}, err
	}
	a.read(input)
	defer a.forget()
	explained := Explanation{Record: a.record}
	if !a.allowsKey(retry.Header) {
		explained.refuse(problem.KeyInvalid)
		return explained, nil
	}
	if int64(len(retry.Body)) > a.route.policy.MaxRequestBytes {
		explained.refuse(problem.BodyTooLarge)
		return explained, nil
	}
	hold, refusal := i.shared.ledger.Find(&a.digest)
	switch {
	case hold != nil:
		explained.Found = hold.Record()
		a.sketch = runOf(hold).sketch
	case refusal != "":
		explained.refuse(refusal)
		return explained, nil
	default:
		if explained.Found, err = i.Lookup(ctx, a.record); err != nil {
			return Explanation{}, err
		}
	}
	explained.Outlook = outlook(a, explained.Found)
	explained.compare(a)
	return explained, nil
}

// compare compares the members of the retry with the record's.
func (x *Explanation) compare(a *attempt) {
	if x.Found == nil {
		return
	}
	if len(x.Found.Sketch) > 0 {
		a.sketch = x.Found.Sketch
	}
	reading := a.parsed()
	if x.Sketched = len(a.sketch) > 0 && reading != nil; x.Sketched {
		x.Same = reading.Same(a.sketch, a.sketchKey())
		x.Differs, x.Others, x.Missing = reading.Differences(a.sketch, a.sketchKey())
	}
}

// Outlook returns the decision about a retry that repeats the record's request, on a route
// with that policy. Nil means that the policy is not known, and a nil record that there is
// none.
func (i *Inspector) Outlook(record *storage.Record, route *Route) Outlook {
	a := newAttempt(i.shared, route)
	switch {
	case route == nil && record != nil && record.Abandoned():
		return Outlook{}
	case route == nil:
		a.route = i.defaults
	}
	a.claimant = newClaimant(a.identity)
	if record != nil {
		a.request.Fingerprint = record.Fingerprint
	}
	return outlook(a, record)
}

// outlook returns the decision about the attempt by a record, or by none.
func outlook(a *attempt, record *storage.Record) (o Outlook) {
	switch {
	case record == nil && a.tooOld:
		o.refuse(problem.KeyExpired)
		return o
	case record == nil:
		return Outlook{Result: event.Execute}
	}
	abandoned := a.route.policy.OnAbandoned
	takesOver := record.Abandoned() && !abandoned.Refuses()
	if (takesOver || record.State == storage.Released) && a.repeats(record) {
		return Outlook{Result: event.Execute, Recovers: takesOver && abandoned.RecoverFunc() != nil && !a.route.observes}
	}
	decision := a.decideByRecord(record)
	if decision.Record != nil {
		return Outlook{Result: event.Replay, Status: decision.Record.Status}
	}
	o.refuse(decision.Problem.Code)
	return o
}

func (o *Outlook) refuse(code string) {
	*o = Outlook{Result: resultOfCode(code), Code: code, Status: problem.New(code, "").Status}
}

// ErrInvalidRetry says that a Retry has an invalid Key or Target. Inspector.StorageKey and
// Inspector.Explain return it wrapped with the reason.
var ErrInvalidRetry = errors.New("oncekey: the retry is not valid")

// admit identifies a retry, as identify and admitCall identify a request and a call.
func (i *Inspector) admit(retry Retry) (*attempt, fingerprint.Request, error) {
	a := newAttempt(i.shared, retry.Route)
	if a.route == nil {
		a.route = i.defaults
	}
	key, path, query := retry.Key, retry.Target, ""
	if retry.Method != storage.MethodCall {
		parsed, err := ParseKey(retry.Key)
		if err != nil {
			return nil, fingerprint.Request{}, fmt.Errorf("%w: its Key: %w", ErrInvalidRetry, err)
		}
		key = parsed
	}
	if retry.Method != storage.MethodCall && retry.Method != storage.MethodTool {
		target, err := url.ParseRequestURI(retry.Target)
		if err != nil {
			return nil, fingerprint.Request{}, fmt.Errorf("%w: its Target is %q: give a path, such as /payments", ErrInvalidRetry, retry.Target)
		}
		path, query = wire.CanonicalPath(target), target.RawQuery
	}
	a.request = Request{Scope: retry.Scope, Method: retry.Method, Path: path, Key: key}
	a.address()
	a.record = hex.EncodeToString(a.digest[:])
	return a, fingerprint.Request{
		Method: retry.Method, Path: path, RawQuery: query, ContentType: retry.Header.Get("Content-Type"),
		Body: retry.Body, Headers: a.route.includedHeaders(retry.Header),
	}, nil
}
