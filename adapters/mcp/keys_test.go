package idemmcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// placed are calls with the key k1 in each default place but the header.
func placed() map[string]*mcp.CallToolParams {
	in := func(arguments args, meta mcp.Meta) *mcp.CallToolParams {
		return &mcp.CallToolParams{Name: "charge", Arguments: arguments, Meta: meta}
	}
	return map[string]*mcp.CallToolParams{
		"AdCP":                  in(args{"amount": 5, "idempotency_key": "k1"}, nil),
		"ACP":                   in(args{"amount": 5, "meta": args{"idempotency_key": "k1"}}, nil),
		"UCP":                   in(args{"amount": 5, "meta": args{"idempotency-key": "k1"}}, nil),
		"_meta":                 in(args{"amount": 5}, mcp.Meta{"idempotency-key": "k1"}),
		"_meta, snake case":     in(args{"amount": 5}, mcp.Meta{"idempotency_key": "k1"}),
		"_meta, camel case":     in(args{"amount": 5}, mcp.Meta{"idempotencyKey": "k1"}),
		"two places":            in(args{"amount": 5, "idempotency_key": "k1"}, mcp.Meta{"idempotency-key": "k1"}),
		"an empty meta":         in(args{"amount": 5, "meta": args{}}, mcp.Meta{"idempotency-key": "k1"}),
		"null is no key":        in(args{"amount": 5, "idempotency_key": nil, "meta": nil}, mcp.Meta{"idempotency-key": "k1", "idempotency_key": nil}),
		"other metadata counts": in(args{"amount": 5, "meta": args{"idempotency_key": "k1", "agent": "a"}}, nil),
	}
}

// A key is found in each of its places, and the place does not count.
func TestKeyPlaces(t *testing.T) {
	t.Parallel()
	overAll(t, setup{}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
		send(t, session, placed()["AdCP"]).wantPaid(t, 5, false)
		for name, params := range placed() {
			got := send(t, session, params)
			if name == "other metadata counts" || name == "null is no key" {
				continue
			}
			if got.err != nil || got.result.Meta["replayed"] != true {
				t.Errorf("%s: got %s, %v, want the replay", name, asJSON(got.result), got.err)
			}
		}
		send(t, session, placed()["other metadata counts"]).wantProblem(t, problem.KeyReused)
		shop.wantRuns(t, 1)
	})
}

// Each place alone gives the key of a first call.
func TestFirstKeyInEachPlace(t *testing.T) {
	t.Parallel()
	for name, params := range placed() {
		made, session := newSession(t, setup{})
		if name == "null is no key" {
			params.Arguments = json.RawMessage(`{"amount":5,"idempotency_key":null}`)
			send(t, session, params) // the schema of the tool refuses it, and the key stays
			continue
		}
		send(t, session, params).wantPaid(t, 5, false)
		send(t, session, params).wantPaid(t, 5, true)
		made.wantRuns(t, 1)
	}
}

// The key is also a header of the HTTP request.
func TestKeyInTheHeader(t *testing.T) {
	t.Parallel()
	handle := func(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
		if got := call.Extra.Header.Get("X-Key"); got != "k1" || call.Extra.Header.Get("Content-Type") == "" {
			t.Errorf("the tool sees the header %q", call.Extra.Header)
		}
		return paid(ctx, call, in)
	}
	made := newShop(t, setup{handle: handle, engine: []core.Option{core.WithKeyHeader("X-Key", "Idempotency-Key")}})
	url := listen(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return made.server }, nil))
	with := func(header http.Header) *mcp.ClientSession {
		return connectTo(t, url, newClient(nil), "2025-11-25", header)
	}
	call(t, with(http.Header{"X-Key": {"k1"}}), args{"amount": 5}).wantPaid(t, 5, false)
	call(t, with(http.Header{"X-Key": {`"k1"`}}), args{"amount": 5}).wantPaid(t, 5, true)
	call(t, with(http.Header{"Idempotency-Key": {"k1"}}), args{"amount": 5}).wantPaid(t, 5, true)
	call(t, with(http.Header{"Idempotency-Key": {"k1"}, "X-Key": {"k1"}}), keyed("k1", 5)).wantPaid(t, 5, true)
	call(t, with(nil), keyed("k1", 5)).wantPaid(t, 5, true)
	for name, header := range map[string]http.Header{
		"another key":    {"X-Key": {"k2"}},
		"two lines":      {"X-Key": {"k1", "k1"}},
		"no key's form":  {"X-Key": {"k1,k2"}},
		"two keys of it": {"X-Key": {"k1"}, "Idempotency-Key": {"k3"}},
	} {
		t.Log(name)
		call(t, with(header), keyed("k1", 5)).wantProblem(t, problem.KeyInvalid)
	}
	made.wantRuns(t, 1)
}

// A call with a wrong key is refused by the engine, and no tool runs.
func TestWrongKeys(t *testing.T) {
	t.Parallel()
	const given = `"amount":5,`
	wrong := map[string]struct{ arguments, meta, says string }{
		"two places differ":           {given + `"idempotency_key":"a","meta":{"idempotency-key":"b"}`, ``, "arguments.idempotency_key and arguments.meta.idempotency-key must be the same key"},
		"arguments and _meta differ":  {given + `"idempotency_key":"a"`, `"idempotency-key":"b"`, "arguments.idempotency_key and _meta.idempotency-key must be the same key"},
		"a number":                    {given + `"meta":{"idempotency_key":42}`, ``, "arguments.meta.idempotency_key must be a string"},
		"a number at the root":        {given + `"idempotency_key":42`, ``, "arguments.idempotency_key must be a string"},
		"an object":                   {given + `"meta":{"idempotency_key":{"a":1}}`, ``, "must be a string"},
		"a number in _meta":           {given, `"idempotency-key":42`, "_meta.idempotency-key must be a string"},
		"an empty key":                {given + `"idempotency_key":""`, ``, "1 to 255 visible ASCII characters"},
		"a space":                     {given + `"idempotency_key":"a b"`, ``, "1 to 255 visible ASCII characters"},
		"a long key":                  {given + `"idempotency_key":"` + strings.Repeat("k", 256) + `"`, ``, "255 characters"},
		"twice":                       {given + `"idempotency_key":"a","idempotency_key":"b"`, ``, "arguments.idempotency_key must be given once"},
		"twice, equal":                {given + `"idempotency_key":"a","idempotency_key":"a"`, ``, "arguments.idempotency_key must be given once"},
		"twice, by an escape":         {given + `"idempotency_key":"a","idempotency\u005fkey":"b"`, ``, "arguments.idempotency_key must be given once"},
		"twice, by another case":      {given + `"idempotency_key":"a","Idempotency_Key":"b"`, ``, "arguments.idempotency_key must be given once"},
		"twice, by a Kelvin sign":     {given + `"idempotency_key":"a","idempotency_\u212aey":"b"`, ``, "arguments.idempotency_key must be given once"},
		"the object around it, twice": {given + `"meta":{"idempotency_key":"a"},"meta":{"idempotency_key":"b"}`, ``, "must be given once"},
		"at a depth of 513":           {given + `"a":` + strings.Repeat("[", 511) + strings.Repeat("]", 511), ``, "at most 512 levels"},
		"in an object that is hidden": {given + `"meta":{"idempotency_key":"a"},"meta":{}`, ``, "must be given once"},
	}
	overAll(t, setup{raw: nothing}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
		refused := 0
		for name, test := range wrong {
			arguments := json.RawMessage("{" + strings.TrimSuffix(test.arguments, ",") + "}")
			meta := mcp.Meta{}
			testkit.Must(t, json.Unmarshal([]byte("{"+test.meta+"}"), &meta))
			got := send(t, session, &mcp.CallToolParams{Name: "raw", Arguments: arguments, Meta: meta})
			if code := got.problem()["code"]; code != problem.KeyInvalid || !strings.Contains(asJSON(got.problem()), test.says) {
				t.Errorf("%s: got %s, %v, want a key_invalid that says %q", name, asJSON(got.result), got.err, test.says)
			}
			refused++
		}
		testkit.Equal(t, shop.events.count(event.Refused), refused, "refusals of the engine")
		shop.wantRuns(t, 0)
	})
}

// A key may have every visible character, and a name that equals the member's elsewhere in
// the arguments is no key.
func TestKeysOfEveryForm(t *testing.T) {
	t.Parallel()
	_, session := newSession(t, setup{})
	for _, key := range []string{`a,b;c`, `say"hi"!`, `"quoted"`, `back\slash`, ":ab:", "?1", strings.Repeat("k", 255)} {
		call(t, session, keyed(key, 5)).wantPaid(t, 5, false)
		call(t, session, keyed(key, 5)).wantPaid(t, 5, true)
	}
	deeper := func(inner string) args {
		return args{"amount": 5, "idempotency_key": "k1", "context": args{"idempotency_key": inner}}
	}
	call(t, session, deeper("x")).wantPaid(t, 5, false)
	call(t, session, deeper("y")).wantProblem(t, problem.KeyReused)
}

// The options of a policy that are about the key.
func TestPolicyOfTheKey(t *testing.T) {
	t.Parallel()
	const uuid = "8e03978e-40d5-43dd-bc93-6894a57f9324"
	type test struct {
		opts []policy.Option
		do   func(t *testing.T, shop *shop, session *mcp.ClientSession)
	}
	testkit.Each(t, map[string]test{
		"KeyFormat": {[]policy.Option{policy.KeyFormat(policy.UUIDKey)}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
			t.Helper()
			call(t, session, keyed("k1", 5)).wantProblem(t, problem.KeyInvalid, "a UUID")
			call(t, session, keyed(uuid, 5)).wantPaid(t, 5, false)
		}},
		"KeyAge": {[]policy.Option{policy.KeyAge(time.Hour)}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
			t.Helper()
			call(t, session, keyed("k1", 5)).wantProblem(t, problem.KeyInvalid, "a UUID of version 7 or a ULID")
			call(t, session, keyed("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", 5)).wantProblem(t, problem.KeyExpired, "older than 1h0m0s")
			shop.wantRuns(t, 0)
			young := fmt.Sprintf("%012x", time.Now().UnixMilli())
			young = young[:8] + "-" + young[8:] + "-7cc3-98c4-dc0c0c07398f"
			call(t, session, keyed(young, 5)).wantPaid(t, 5, false)
			call(t, session, keyed(young, 5)).wantPaid(t, 5, true)
		}},
		"Required is false": {[]policy.Option{policy.Required(false)}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
			t.Helper()
			call(t, session, args{"amount": 5}).wantPaid(t, 5, false)
			call(t, session, args{"amount": 5}).wantPaid(t, 5, false)
			call(t, session, args{"amount": 5, "meta": args{"idempotency_key": 7}}).wantProblem(t, problem.KeyInvalid)
			shop.wantRuns(t, 2)
		}},
		"a KeyField of its own": {[]policy.Option{policy.KeyField("number")}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
			t.Helper()
			call(t, session, args{"amount": 5, "number": 17}).wantPaid(t, 5, false)
			call(t, session, args{"amount": 5, "number": 17, "idempotency_key": "17"}).wantPaid(t, 5, true)
			call(t, session, args{"amount": 5, "number": 17, "idempotency_key": "18"}).wantProblem(t, problem.KeyInvalid, "number")
			call(t, session, args{"amount": 5, "idempotency_key": "18"}).wantProblem(t, problem.KeyMissing, "number is required")
			shop.wantRuns(t, 1)
		}},
		"a KeyField in a place": {[]policy.Option{policy.KeyField("idempotency_key")}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
			t.Helper()
			call(t, session, keyed("k1", 5)).wantPaid(t, 5, false)
			call(t, session, args{"amount": 5, "idempotency_key": "k1", "meta": args{"idempotency_key": "k1"}}).wantPaid(t, 5, true)
			call(t, session, args{"amount": 5, "meta": args{"idempotency_key": "k1"}}).wantProblem(t, problem.KeyMissing)
			shop.wantRuns(t, 1)
		}},
		"a missing key names its places": {nil, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
			t.Helper()
			call(t, session, args{"amount": 5}).wantProblem(t, problem.KeyMissing,
				"An idempotency key is required", "arguments.idempotency_key, arguments.meta.idempotency_key", "_meta.idempotency-key", "the header Idempotency-Key")
		}},
	}, func(t *testing.T, test test) {
		made := newShop(t, setup{policy: test.opts})
		test.do(t, made, inMemory("2026-07-28")(t, made.server, newClient(nil)))
	})
}

// A program chooses the places.
func TestKeyIn(t *testing.T) {
	t.Parallel()
	made, session := newSession(t, setup{guard: []idemmcp.Option{idemmcp.KeyIn(idemmcp.InMeta("com.example/request"), idemmcp.InMeta("note"), idemmcp.InArguments(`context.a\.b.key`))}})
	call(t, session, keyed("k1", 5)).wantProblem(t, problem.KeyMissing)
	first := &mcp.CallToolParams{Name: "charge", Arguments: args{"amount": 5}, Meta: mcp.Meta{"com.example/request": "k1"}}
	send(t, session, first).wantPaid(t, 5, false)
	call(t, session, args{"amount": 5, "context": args{"a.b": args{"key": "k1"}}}).wantPaid(t, 5, true)
	first.Arguments = args{"amount": 5, "note": "a member of a place's name counts"}
	send(t, session, first).wantProblem(t, problem.KeyReused)
	made.wantRuns(t, 1)

	table, err := policy.NewTable(policy.Row("TOOL charge"))
	testkit.Must(t, err)
	for want, places := range map[string][]idemmcp.KeyPlace{
		"KeyIn is given no places": nil,
		"InMeta is given":          {idemmcp.InMeta("")},
		"InHeader is given":        {idemmcp.InHeader("a b")},
		"no member is at":          {idemmcp.InArguments("a..b")},
		"a star would match":       {idemmcp.InArguments("items.*.key")},
		"a KeyPlace is empty":      {{}},
	} {
		if _, err := idemmcp.New(made.engine, table, idemmcp.KeyIn(places...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: the error is %v, want one with %q", places, err, want)
		}
	}
	if got := fmt.Sprint(idemmcp.InMeta("a"), ", ", idemmcp.InArguments("b.c"), ", ", idemmcp.InHeader("x-key")); got != "_meta.a, arguments.b.c, the header X-Key" {
		t.Errorf("the places are called %s", got)
	}
}
