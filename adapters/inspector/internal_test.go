package inspector

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

type silent struct{}

func (silent) Observe(context.Context, event.Event) {}

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	events := Remember(silent{}, 3)
	for i, record := range []string{"a", "b", "c", "b", "d"} {
		events.Observe(t.Context(), event.Event{Result: event.Replay, Record: record, Status: i})
	}
	var records string
	for _, one := range events.all(func(*Happened) bool { return true }) {
		records += one.Record
	}
	testkit.Equal(t, records, "cbd", "the events are of the records")
	if oldest := events.all(func(*Happened) bool { return true })[0].At; !events.from().Equal(oldest) {
		t.Errorf("the events are complete since %s, want %s", events.from(), oldest)
	}
	if got := events.asked([]Row{{Record: "b"}, {Record: "a"}}); got["b"] != 1 || got["a"] != 0 {
		t.Errorf("the records were asked for %v", got)
	}
}

func TestSlowRuns(t *testing.T) {
	t.Parallel()
	events := Remember(silent{}, 1000)
	for i := range enoughRuns {
		events.Observe(t.Context(), event.Event{Result: event.Completed, Route: "POST /payments", Duration: time.Duration(i) * time.Millisecond})
	}
	events.Observe(t.Context(), event.Event{Result: event.Completed, Route: "POST /rare", Duration: time.Second})
	if got := events.slowest(); len(got) != 1 || got["POST /payments"] != 99*time.Millisecond {
		t.Errorf("the slowest runs are %v, want 99 ms on the frequent route", got)
	}
}

// A lease that ended at once did not end before the claim.
func TestLeaseEndsAfterTheClaim(t *testing.T) {
	t.Parallel()
	claimed := time.Now().Truncate(time.Millisecond).Add(-100 * time.Microsecond)
	all := timeline(&storage.Record{State: storage.InProgress, Attempt: 1, Created: claimed, LeaseLeft: -time.Since(claimed)}, nil)
	if len(all) != 2 || all[0].Text != "Claimed, attempt 1" || all[1].Text != "The lease ended" {
		t.Errorf("the timeline is %v, want the claim before the end of its lease", all)
	}
}

// The end of a record is not the end of the protection where the policy has a KeyAge.
func TestAfterwards(t *testing.T) {
	t.Parallel()
	record := storage.Record{State: storage.Completed, Status: 201, Expires: time.Now().Add(time.Hour)}
	for want, declared := range map[string]*policy.Policy{
		"Then a retry would run, unless the route's policy has Remember.":                    nil,
		"Then the record is gone, and a retry would run.":                                    {},
		"Then the record is gone, and a retry would run, unless its key is older than 23 h.": {KeyAge: 23 * time.Hour},
		"409 key_expired for another 24 h. Then a retry would run.":                          {Remember: 24 * time.Hour},
		"another 24 h. Then a retry would run, unless its key is older than 47 h.":           {Remember: 24 * time.Hour, KeyAge: 47 * time.Hour},
	} {
		if got := afterwards(&record, declared, core.Outlook{Result: event.Replay, Status: 201}); !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want %q at its end", got, want)
		}
	}
	testkit.Equal(t, afterwards(&record, nil, core.Outlook{Result: event.Execute}), ".", "after a record that a retry does not get")
}

func TestMaskJSON(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"cardNumber":"4111","holder":"A"}`:             `{"cardNumber":"(masked)","holder":"A"}`,
		`{"card":{"brand":"visa","last":[1,null,true]}}`: `{"card":{"brand":"(masked)","last":["(masked)",null,"(masked)"]}}`,
		`[{"access_token":"t","company":"pan"}]`:         `[{"access_token":"(masked)","company":"pan"}]`,
		`{"CVC":123,"n":1e400,"text":"<b>"}`:             `{"CVC":"(masked)","n":1e400,"text":"\u003cb\u003e"}`,
		`{"APIToken":"t","PANNumber":1,"XMLNote":"n"}`:   `{"APIToken":"(masked)","PANNumber":"(masked)","XMLNote":"n"}`,
		`{"CVV":1,"Pan":1,"iD_token":"t","eIBAN2":1}`:    `{"CVV":"(masked)","Pan":"(masked)","iD_token":"(masked)","eIBAN2":"(masked)"}`,
		`["code",[1],{"a":[2],"pin":{"a":3}}]`:           `["(masked)",["(masked)"],{"a":[2],"pin":{"a":"(masked)"}}]`,
		`"sk_live"`:                                      `"(masked)"`,
		`{"PAN-number":1} {"card":1}`:                    "",
		`{"open":`:                                       "",
		``:                                               "",
	} {
		got, ok := maskJSON([]byte(body))
		if ok != (want != "") || compacted(got) != want {
			t.Errorf("%s becomes %s, want %s", body, compacted(got), want)
		}
	}
	// Case 91: the words in the plural, run together, cut, or written in another way.
	for _, name := range []string{
		"cards", "tokens", "passwords", "secrets", "numbers", "pans", "PANs", "CVVs", "cvcs", "ibans", "IBANs", "authorizations",
		"cardnumber", "accesstoken", "cardNumbers", "access_tokens", "CARD-NUMBERS", "refreshtokens", "userpassword", "clientsecrets",
		"creditcards", "CREDITCARD", "idToken2", "cardpan", "panhash", "maskedpans", "cvv2", "CVV2", "bankiban", "passWord", "Pass_words",
		"i_ban", "xauthorizationheader", "authorisation", "ſecret", "toKen", "ｔｏｋｅｎ", "to\u200bken", "apiKey", "api_key", "APIKEY", "privateKeys",
		"passphrase", "passwd", "passcode", "credentials", "cookies", "Set-Cookie", "pin", "PINs", "discardToken", "companyPan", "wildcardcards",
	} {
		if !isSecret(name) {
			t.Errorf("the value of %s is shown", name)
		}
	}
	for _, name := range []string{
		"company", "companies", "japan", "discarded", "wildcards", "cardinality", "timespan", "panel", "expanded", "secretary", "carDriver",
		"shipAndBill", "shipping", "spinner", "keys", "amount", "currency", "apiVersion", "Spanish", "dashboard", "",
	} {
		if isSecret(name) {
			t.Errorf("the value of %s is masked", name)
		}
	}
	// Case 32: brackets that would overflow the stack, and end the process.
	for _, deep := range []string{strings.Repeat("[", 8<<20), strings.Repeat(`{"a":`, 4<<20)} {
		if _, ok := maskJSON([]byte(deep)); ok {
			t.Error("a text that is nested too deeply is shown")
		}
	}
	// Case 91: the text of a body that is not shown is not returned either, because programs read the JSON of a page.
	for contentType, body := range map[string]string{"text/plain": "secret", "application/json": `{"token":`, "": `{"token":1}`} {
		if text, shown := (&Page{}).mask(contentType, []byte(body)); shown || text != "" {
			t.Errorf("%s of %q is shown as %q", body, contentType, text)
		}
	}
}

// Case 91: addresses have parameters with the same names as members, and headers are credentials by such names.
func TestMaskedAddressesAndHeaders(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"/payments/p1": "/payments/p1",
		"https://shop.example/pay?access_token=4&page=2":       "https://shop.example/pay?access_token=(masked)&page=2",
		"https://shop.example/pay?cardnumber=4#idTokens=4&a=1": "https://shop.example/pay?cardnumber=(masked)#idTokens=(masked)&a=1",
		"https://ops:4@shop.example/pay?a=1;sec%72et=4&%zz=4":  "https://(masked)@shop.example/pay?a=1&sec%72et=(masked)&%zz=(masked)",
		"//ops:4%@shop.example//a@b?token4":                    "//(masked)@shop.example//a@b?token4=(masked)",
		"/3ds?back=%2Fpay%3Fclient_secret%3D4&to=/a?page=2":    "/3ds?back=(masked)&to=/a?page=2",
	} {
		testkit.Equal(t, maskAddress(address), want, "%s becomes", address)
	}
	for _, name := range []string{"set-cookie", "Set-Cookie2", "Authorization", "Proxy-Authorization", "www-authenticate", "X-Api-Key", "X-Auth-Token", "X-Accesstoken"} {
		if err := Headers(name)(new(Page)); err == nil {
			t.Errorf("the header %s is shown", name)
		}
	}
	if err := Headers("Content-Type", "X-Page-Number", "Location", "Idempotent-Replayed")(new(Page)); err != nil {
		t.Error(err)
	}
}

// compacted removes the indentation.
func compacted(text []byte) (compact string) {
	inString := false
	for _, c := range string(text) {
		if c == '"' {
			inString = !inString
		}
		if inString || c != ' ' && c != '\n' {
			compact += string(c)
		}
	}
	return compact
}

func TestServes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method, pattern, path string
		want                  bool
	}{
		{"POST", "POST /payments", "/payments?x=1", true},
		{"POST", "/payments/{id}", "/payments/7", true},
		{"POST", "/payments/:id", "/payments/7", true},
		{"POST", "/payments/{id}", "/payments/7/refund", false},
		{"POST", "/files/*path", "/files/a/b", true},
		{"POST", "POST example.com/a", "/a", true},
		{"POST", "POST /payments/{$}", "/payments/", true},
		{"POST", "POST /payments/{$}", "/payments/7", false},
		{"POST", "POST /{$}", "/payments", false},
		{"POST", "POST /files/", "/files/a/b", true},
		{"POST", "/files/", "/files/a", false},
		{"POST", "/payments/{id}", "/payments/", false},
		{"PATCH", "/payments", "/payments", false},
		{"CALL", "charge card", "charge card", true},
		{"CALL", "charge", "charge card", false},
		{"TOOL", "shop/charge", "shop/charge", true},
		{"TOOL", "charge", "refund", false},
	} {
		method := test.method
		if method == "PATCH" {
			method = "POST"
		}
		if got := serves(core.Endpoint{Method: method, Pattern: test.pattern}, test.method, test.path); got != test.want {
			t.Errorf("%s %s serves %s: %t, want %t", method, test.pattern, test.path, got, test.want)
		}
	}
}

// Of two patterns that serve a path, the first of each pair names more of it.
func TestCloseness(t *testing.T) {
	t.Parallel()
	for closer, other := range map[string]string{
		"POST /{a}/items":   "POST /{a}/{b}",
		"POST /orders/{$}":  "POST /orders/",
		"POST /orders/{id}": "POST /orders/{rest...}",
		"/orders/new":       "/orders/:id",
		"/orders/:id":       "/orders/*rest",
	} {
		if a, b := closeness(core.Endpoint{Method: "POST", Pattern: closer}), closeness(core.Endpoint{Method: "POST", Pattern: other}); a <= b {
			t.Errorf("%s has %s, and %s has %s", closer, a, other, b)
		}
	}
}

func TestDurationsInWords(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "less than 1 ms", 300 * time.Millisecond: "300 ms", 4200 * time.Millisecond: "4.2 s", 48 * time.Second: "48 s",
		90 * time.Minute: "90 min", 47*time.Hour + 55*time.Minute: "47 h 55 min", 49 * time.Hour: "49 h", 100 * time.Hour: "4 d 4 h",
	} {
		testkit.Equal(t, inWords(d), want, "%d in words", d)
	}
}

// A deeply nested body, which a client may have sent for its echo, is shown without indentation.
func TestNestedBodyStaysSmall(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	if text, ok := maskJSON([]byte(body)); !ok || string(text) != body {
		t.Errorf("%d bytes became %d: %t", len(body), len(text), ok)
	}
	long := `{"a":[` + strings.Repeat("[1],", 20_000) + "1]}"
	if text, ok := maskJSON([]byte(long)); !ok || string(text) != long { // a browser would take seconds for the lines
		t.Errorf("%d bytes of a long list became %d: %t", len(long), len(text), ok)
	}
}
