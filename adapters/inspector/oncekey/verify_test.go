package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// payment is the body of the tests. It allows every probe.
const payment = `{"amount":4200,"currency":"EUR","items":[1,2]}`

// verified runs verify against a bank, and returns its JSON.
func (b *bank) verified(t *testing.T, server *httptest.Server, args ...string) (found verified, code int) {
	t.Helper()
	text, errors, code := b.said(t, server, append([]string{"-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatalf("no JSON (%v):\n%s%s", err, text, errors)
	}
	return found, code
}

func (b *bank) said(t *testing.T, server *httptest.Server, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	all := append([]string{
		"verify", "--i-own-this-server", "--header", "Authorization: Bearer test", "--body", payment, "--concurrency", "4",
		"--other-url", server.URL + "/refunds", "--timeout", "40s", "--total-timeout", "4m", server.URL + "/payments",
	}, args...)
	code = run(t.Context(), all, world{strings.NewReader(""), &out, &errs, nil})
	return out.String(), errs.String(), code
}

// withEverything lets verify see all that it can see.
func withEverything(server *httptest.Server, rules string) []string {
	return []string{"--effects", server.URL + "/effects", "--failing-body", `{"amount":13}`, "--rules", rules}
}

// rulesWith returns the rules with a result, sorted.
func (v *verified) rulesWith(result string) (ids []string) {
	for _, of := range v.Protocols {
		for _, one := range of.Rules {
			if string(one.Result) == result {
				ids = append(ids, one.Rule)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// unseen are the rules that cannot be seen from outside.
var unseen = []string{"acp.retention", "draft.expiry", "stripe.retention", "ucp.fail-closed", "ucp.retention"}

// A server that keeps all rules of a protocol breaks none, and verify sees all that can be seen.
func TestRightServers(t *testing.T) {
	t.Parallel()
	for name, of := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, server := openBank(t, of(), nil)
			found, code := b.verified(t, server, withEverything(server, name)...)
			unknown := slices.DeleteFunc(found.rulesWith("unknown"), func(id string) bool { return slices.Contains(unseen, id) })
			if broken := found.rulesWith("broken"); len(broken)+len(unknown) > 0 || code != exitDone {
				t.Errorf("exit code %d, broken %q, unknown %q", code, broken, unknown)
				t.Log(b.said(t, server, withEverything(server, name)...))
			}
			sum := 0
			for _, one := range found.Probes {
				sum += one.Requests
			}
			if b.add(func() {}); b.requests != sum {
				t.Errorf("the server got %d requests, and verify counts %d", b.requests, sum)
			}
		})
	}
}

// noKey matches requests without a key.
func noKey(r *http.Request) bool { return r.Header.Get(core.KeyHeader) == "" }

func keyOf(length int) func(*http.Request) bool {
	return func(r *http.Request) bool { return len(r.Header.Get(core.KeyHeader)) == length }
}

// firstBody replaces the body by the first one under the key.
func firstBody(is func(*http.Request) bool) mistake {
	bodies := make(chan map[string][]byte, 1)
	bodies <- make(map[string][]byte)
	return readsBodyAs(func(r *http.Request, body []byte) []byte {
		if !is(r) {
			return body
		}
		all := <-bodies
		defer func() { bodies <- all }()
		if _, has := all[r.Header.Get(core.KeyHeader)]; !has {
			all[r.Header.Get(core.KeyHeader)] = body
		}
		return all[r.Header.Get(core.KeyHeader)]
	})
}

// replays200 replays 201 as 200.
var replays200 = changed(func(_ *bank, r *http.Request, response *httptest.ResponseRecorder) {
	if probeOf(r) == "equal-retry" && response.Header().Get("Idempotent-Replayed")+response.Header().Get("X-Idempotent-Replay") != "" {
		response.Code = http.StatusOK
	}
})

// runsAgain replays, and runs the operation all the same.
var runsAgain = changed(func(b *bank, r *http.Request, response *httptest.ResponseRecorder) {
	if probeOf(r) == "equal-retry" && response.Header().Get("Idempotent-Replayed")+response.Header().Get("X-Idempotent-Replay") != "" {
		b.add(func() { b.effects++ })
	}
})

// locked refuses duplicates of a running request by 423.
var locked = otherStatus("duplicates", http.StatusConflict, http.StatusLocked)

// wrongCode replaces ACP's code.
func wrongCode(code string) mistake {
	return changed(func(_ *bank, _ *http.Request, response *httptest.ResponseRecorder) {
		text := strings.Replace(response.Body.String(), code, "idempotency_problem", 1)
		response.Body.Reset()
		response.Body.WriteString(text)
	})
}

func always(*http.Request) bool { return true }

var nullMembers = regexp.MustCompile(`,"[^"]*":null`)

// planted are servers with one mistake, and the rules that it breaks.
var planted = []struct {
	name    string
	of      string
	mistake mistake
	policy  []policy.Option
	breaks  string
}{
	{"a missing key gets 428", "draft", refuseIf(noKey, 428), nil, "key-required"},
	{"replays another status", "draft", replays200, nil, "retry"},
	{"ignores keys", "draft", bareIf(always), nil, "retry once reuse-fails reuse-status lost-response"},
	{"runs duplicates", "draft", bareIf(in("duplicates")), nil, "once"},
	{"423 for a running request", "draft", locked, nil, "in-progress"},
	{"another payload gets the first response", "draft", firstBody(in("other-payload")), nil, "reuse-fails reuse-status"},
	{"runs another payload at the same time", "draft", bareIf(in("other-payload-at-once")), nil, "reuse-fails"},
	{"409 for another payload", "draft", otherStatus("", 422, 409), nil, "reuse-status"},
	{"a retry after a cut in the response runs", "draft", bareIf(in("cut-in-response")), nil, "lost-response"},
	{"a retry after a cut before the response runs", "draft", bareIf(in("cut-before-response")), nil, "lost-response"},

	{"needs no key", "acp", bareIf(noKey), nil, "key-required"},
	{"refuses long keys", "acp", refuseIf(keyOf(255), 400), nil, "key-255"},
	{"takes every key", "acp", bareIf(keyOf(256)), nil, "key-256"},
	{"one key for all paths", "acp", func(_ *bank, guarded, _ http.Handler) http.Handler { return onePath(guarded) }, nil, "path-scope"},
	{"compares bytes", "acp", nil, []policy.Option{policy.ExactBytes(true)}, "member-order number-spelling"},
	{"member order is another payload", "acp", refuseIf(second(in("member-order")), 422), nil, "member-order"},
	{"runs another member order", "acp", bareIf(in("member-order")), nil, "member-order"},
	{"number spelling is another payload", "acp", refuseIf(second(in("number-spelling")), 422), nil, "number-spelling"},
	{"null is absent", "acp", readsBodyAs(func(_ *http.Request, body []byte) []byte { return nullMembers.ReplaceAll(body, nil) }), nil, "null-differs"},
	{"arrays are sets", "acp", readsBodyAs(func(_ *http.Request, body []byte) []byte {
		return bytes.Replace(body, []byte("[2,1]"), []byte("[1,2]"), 1)
	}), nil, "array-order"},
	{"replays another status", "acp", replays200, nil, "replay"},
	{"does not mark replays", "acp", withoutHeader("Idempotent-Replayed"), nil, "replay-header"},
	{"runs again behind a replay", "acp", runsAgain, nil, "once"},
	{"runs duplicates", "acp", bareIf(in("duplicates")), nil, "once"},
	{"a retry after a cut runs", "acp", bareIf(in("cut")), nil, "lost-response"},
	{"409 for another payload", "acp", otherStatus("", 422, 409), nil, "other-body"},
	{"runs another payload", "acp", bareIf(in("other-payload")), nil, "other-body other-body-fails echo"},
	{"runs another payload at the same time", "acp", bareIf(in("other-payload-at-once")), nil, "other-body-fails"},
	{"423 for a running request", "acp", locked, nil, "in-flight"},
	{"409 without Retry-After", "acp", withoutHeader("Retry-After"), nil, "retry-after"},
	{"wrong code of a missing key", "acp", wrongCode("idempotency_key_required"), nil, "error-body"},
	{"wrong code of a conflict", "acp", wrongCode("idempotency_conflict"), nil, "error-body"},
	{"wrong code of a running request", "acp", wrongCode("idempotency_in_flight"), nil, "error-body"},
	{"no echo", "acp", withoutHeader("Idempotency-Key"), nil, "echo"},
	{"keeps 500", "acp", nil, []policy.Option{policy.Keep("500")}, "no-5xx"},

	{"replays another status", "ucp", replays200, nil, "replay"},
	{"runs again behind a replay", "ucp", runsAgain, nil, "once"},
	{"a retry after a cut runs", "ucp", bareIf(in("cut")), nil, "lost-response"},
	{"422 for another payload", "ucp", otherStatus("other-payload", 409, 422), nil, "other-body"},
	{"runs another payload at the same time", "ucp", bareIf(in("other-payload-at-once")), nil, "other-body-fails"},
	{"compares JSON", "ucp", nil, []policy.Option{policy.ExactBytes(false)}, "raw-bytes"},

	{"needs a key", "stripe", nil, []policy.Option{policy.Required(true)}, "key-optional"},
	{"refuses long keys", "stripe", refuseIf(keyOf(255), 400), nil, "key-255"},
	{"replays another status", "stripe", replays200, nil, "replay"},
	{"does not mark replays", "stripe", withoutHeader("Idempotent-Replayed"), nil, "replay-header"},
	{"runs duplicates", "stripe", bareIf(in("duplicates")), nil, "once"},
	{"a retry after a cut runs", "stripe", bareIf(in("cut")), nil, "lost-response"},
	{"another payload gets the first response", "stripe", firstBody(in("other-payload")), nil, "other-parameters"},
	{"another error for another payload", "stripe", otherStatus("other-payload", 400, 422), nil, "other-parameters"},
	{"runs another payload at the same time", "stripe", bareIf(in("other-payload-at-once")), nil, "other-at-once"},
	{"another endpoint is another key", "stripe", bareIf(in("other-url")), nil, "other-endpoint"},
	{"423 for a running request", "stripe", locked, nil, "concurrent"},
	{"forgets 500", "stripe", nil, []policy.Option{policy.Keep()}, "keeps-500"},
	{"keeps what fails validation", "stripe", nil, []policy.Option{policy.Release()}, "invalid"},
	{"refuses a key on GET", "stripe", refuseIf(func(r *http.Request) bool { return r.Method == http.MethodGet && !noKey(r) }, 400), nil, "get"},
}

// Each mistake breaks its own rules, and no other one. Together they break every rule that can be seen from outside.
func TestPlantedMistakes(t *testing.T) {
	t.Parallel()
	left := make(map[string]bool)
	for name, of := range dialects {
		b, server := openBank(t, of(), nil)
		found, _ := b.verified(t, server, withEverything(server, name)...)
		for _, id := range found.rulesWith("kept") {
			left[id] = true
		}
	}
	for _, row := range planted {
		var want []string
		for id := range strings.FieldsSeq(row.breaks) {
			want = append(want, row.of+"."+id)
			delete(left, row.of+"."+id)
		}
		slices.Sort(want)
		t.Run(row.of+": "+row.name, func(t *testing.T) {
			t.Parallel()
			of := dialects[row.of]()
			of.policy = append(of.policy, row.policy...)
			b, server := openBank(t, of, row.mistake)
			found, code := b.verified(t, server, withEverything(server, row.of)...)
			if broken := found.rulesWith("broken"); !slices.Equal(broken, want) {
				t.Errorf("broken are %q, want %q", broken, want)
				t.Log(b.said(t, server, withEverything(server, row.of)...))
			}
			must := 0
			for _, one := range found.Protocols {
				must += one.BrokenMust
			}
			testkit.Equal(t, code == exitDone, must == 0, "exit code %d with %d broken MUSTs", code, must)
		})
	}
	if len(left) > 0 {
		t.Errorf("no mistake breaks %q", slices.Sorted(maps.Keys(left)))
	}
}
