package program_test

import (
	"fmt"
	"net/http"
)

// order is a payment with this card.
func order(card string) string {
	return fmt.Sprintf(`{"order_id":"order-1","amount":4200,"currency":"EUR","card":%q}`, card)
}

// orderOf is a payment of another order, or of another amount.
func orderOf(id string, amount int) string {
	return fmt.Sprintf(`{"order_id":%q,"amount":%d,"currency":"EUR","card":"tok_ok"}`, id, amount)
}

// pay is a payment's step, refund a refund's.
func pay(key, card string, status int) step {
	return step{path: "/payments", key: key, body: order(card), status: status}
}

func refund(key, card string, status int) step {
	s := pay(key, card, status)
	s.path = "/refunds"
	return s
}

func (s step) with(contains string) step { s.contains = contains; return s }
func (s step) again() step               { s.replayed = true; return s }
func (s step) as(user string) step       { s.user = user; return s }
func (s step) sending(body string) step  { s.body = body; return s }

var paymentScenarios = []scenario{
	{"tok_ok is charged once", []step{
		pay("k", "tok_ok", 201).with(`"status":"captured"`),
		pay("k", "tok_ok", 201).with(`"status":"captured"`).again(),
		pay("k", "tok_ok", 201).with(`"payment_id":"pay_`).again(),
	}, counts{charges: 1, attempts: 1}},
	{"another key is another payment", []step{
		pay("k-1", "tok_ok", 201), pay("k-2", "tok_ok", 201).sending(orderOf("order-2", 4200)),
	}, counts{charges: 2, attempts: 2}},
	{"an order is paid once, under any key", []step{
		pay("k-1", "tok_ok", 201), pay("k-2", "tok_ok", 200).with(`"status":"captured"`),
		pay("k-2", "tok_ok", 200).with(`"order_id":"order-1"`).again(),
		pay("k-3", "tok_stream", 200), pay("k-4", "tok_crash_after_charge", 200),
		pay("k-5", "tok_ok", 409).sending(orderOf("order-1", 9900)).with("was paid with another amount, as pay_"),
		pay("k-6", "tok_ok", 201).as("bob"),
	}, counts{charges: 2, attempts: 6}},
	{"an order is paid once, also after a panic", []step{
		pay("k-1", "tok_crash_after_charge", 500), pay("k-2", "tok_ok", 200).with(`"status":"captured"`),
	}, counts{charges: 1, attempts: 2}},
	{"an order is refunded in parts", []step{
		refund("k-1", "tok_ok", 201), refund("k-2", "tok_ok", 201),
	}, counts{refunds: 2, attempts: 2}},
	{"another payload under the same key is refused", []step{
		pay("k", "tok_ok", 201), pay("k", "tok_declined", 422).with(`"key_reused"`),
	}, counts{charges: 1, attempts: 1}},
	{"excluded fields do not make another payload", []step{
		pay("k", "tok_ok", 201).sending(`{"order_id":"o","amount":1,"currency":"EUR","card":"tok_ok","clientTimestamp":1,"requestNonce":"a"}`),
		pay("k", "tok_ok", 201).sending(`{"requestNonce":"b","order_id":"o","amount":1,"currency":"EUR","card":"tok_ok"}`).again(),
	}, counts{charges: 1, attempts: 1}},
	{"tok_declined stays declined", []step{
		pay("k", "tok_declined", 402).with("card was declined"),
		pay("k", "tok_declined", 402).with("card was declined").again(),
	}, counts{attempts: 1}},
	{"tok_gateway_down frees the key", []step{
		pay("k", "tok_gateway_down", 503), pay("k", "tok_ok", 201), pay("k", "tok_ok", 201).again(),
	}, counts{charges: 1, attempts: 2}},
	{"tok_rate_limited frees the key", []step{
		pay("k", "tok_rate_limited", 429), pay("k", "tok_ok", 201), pay("k", "tok_ok", 201).again(),
	}, counts{charges: 1, attempts: 2}},
	{"tok_panic frees the key", []step{
		pay("k", "tok_panic", 500), pay("k", "tok_panic", 500), pay("k", "tok_ok", 201),
	}, counts{charges: 1, attempts: 3}},
	{"tok_crash_after_charge keeps the key", []step{
		pay("k", "tok_crash_after_charge", 500),
		pay("k", "tok_crash_after_charge", 500).with(`"code":"handler_failed"`).again(),
		pay("k", "tok_ok", 422),
	}, counts{charges: 1, attempts: 1}},
	{"tok_slow is charged in the end", []step{
		pay("k", "tok_slow:10ms", 201), pay("k", "tok_slow:10ms", 201).again(),
	}, counts{charges: 1, attempts: 1}},
	{"tok_huge within the limit is replayed", []step{
		pay("k", "tok_huge:1000000", 201).with("xxx"), pay("k", "tok_huge:1000000", 201).with("xxx").again(),
	}, counts{charges: 1, attempts: 1}},
	{"tok_huge above the limit is not kept", []step{ // Case 29
		pay("k", "tok_huge:1048577", 201).with("xxx"), pay("k", "tok_huge:1048577", 409).with(`"code":"not_replayable"`),
	}, counts{charges: 1, attempts: 1}},
	{"tok_stream is not kept", []step{ // Case 29
		pay("k", "tok_stream", 201).with("authorized\ncaptured\nsettled\n"), pay("k", "tok_stream", 409).with(`"code":"not_replayable"`),
	}, counts{charges: 1, attempts: 1}},
	{"a refund has keys of its own", []step{
		pay("k", "tok_ok", 201),
		refund("k", "tok_ok", 201).with(`"status":"refunded"`),
		refund("k", "tok_ok", 201).with(`"refund_id":"ref_`).again(),
		refund("k", "tok_declined", 422),
		refund("k-2", "tok_declined", 402),
	}, counts{charges: 1, refunds: 1, attempts: 3}},
}

// invalidPayments are refused by the handler, with the name of the field.
func invalidPayments() []scenario {
	bodies := map[string]string{
		`{`:                             "body is not JSON",
		`[]`:                            "body must be a JSON object",
		`{"amount":1}`:                  "order_id is missing",
		`{"order_id":7}`:                "order_id cannot be a JSON number",
		`{"order_id":"o"}`:              "amount must be more than 0",
		`{"order_id":"o","amount":0}`:   "amount must be more than 0",
		`{"order_id":"o","amount":-1}`:  "amount must be more than 0",
		`{"order_id":"o","amount":1.5}`: "amount cannot be a JSON number 1.5",
		`{"order_id":"o","amount":1}`:   "currency must be three letters",
		`{"order_id":"o","amount":1,"currency":"EUR"}`: "card is missing",
		order("tok_unknown"):                           "card \\\"tok_unknown\\\" is unknown",
		order("tok_ok:1"):                              "card \\\"tok_ok:1\\\" is unknown",
		order("tok_slow"):                              "give a duration of at most 10m0s",
		order("tok_slow:soon"):                         "give a duration of at most 10m0s",
		order("tok_slow:11m"):                          "give a duration of at most 10m0s",
		order("tok_slow:-1s"):                          "give a duration of at most 10m0s",
		order("tok_huge:many"):                         "give 1 to 67108864 bytes",
		order("tok_huge:0"):                            "give 1 to 67108864 bytes",
		order("tok_huge:9999999999"):                   "give 1 to 67108864 bytes",
	}
	var all []scenario
	for body, message := range bodies {
		refused := step{path: "/payments", key: "k", body: body, status: 400, contains: message}
		all = append(all, scenario{"invalid " + body, []step{refused, refused.again()}, counts{attempts: 1}})
	}
	return all
}

func join(key, email string, status int) step {
	return step{path: "/members", key: key, body: fmt.Sprintf(`{"email":%q}`, email), status: status}
}

func change(key, id, email string, status int) step {
	s := join(key, email, status)
	s.method, s.path = http.MethodPatch, "/members/"+id
	return s
}

var memberScenarios = []scenario{
	{"a member is created once", []step{
		join("k", "ada@example.com", 201).with(`"member_id":"mem_1"`),
		join("k", "ada@example.com", 201).with(`"member_id":"mem_1"`).again(),
	}, counts{members: 1, attempts: 1}},
	{"a taken email frees the key", []step{
		join("k-1", "ada@example.com", 201),
		join("k-2", "ada@example.com", 409).with("email is taken"),
		join("k-2", "bob@example.com", 201).with(`"member_id":"mem_2"`),
	}, counts{members: 2, attempts: 3}},
	{"a member is changed, with a key or without", []step{
		join("k", "ada@example.com", 201),
		change("", "mem_1", "eva@example.com", 200).with(`"email":"eva@example.com"`),
		change("k", "mem_1", "ida@example.com", 200),
		change("k", "mem_1", "ida@example.com", 200).again(),
		change("", "mem_1", "ida@example.com", 200),
		join("k-2", "ada@example.com", 201).with("mem_2"), // the email is available again
		change("", "mem_2", "ida@example.com", 409),
		change("", "mem_3", "eva@example.com", 404).with("member is unknown"),
	}, counts{members: 4, attempts: 7}},
	{"an email must be one", []step{
		join("k-1", "ada", 400).with("email must be"),
		join("k-2", "Ada <ada@example.com>", 400).with("email must be"),
		change("", "mem_1", "", 400).with("email must be"),
	}, counts{attempts: 3}},
	{"a body without a guard is bounded too", []step{
		change("", "mem_1", string(make([]byte, 1<<20)), 400).with("body cannot be read"),
	}, counts{attempts: 1}},
}

var noteScenarios = []scenario{
	{"a note is taken once", []step{
		{path: "/notes", key: "k", body: `{"text":"call back"}`, status: 201, contains: `{"text":"call back"}`},
		{path: "/notes", key: "k", body: `{"text":"call back"}`, status: 201, replayed: true},
		{path: "/notes", key: "k-2", body: `{}`, status: 400, contains: "text is missing"},
	}, counts{notes: 1, attempts: 2}},
}

var accessScenarios = []scenario{
	{"two users have a key each", []step{ // Case 22
		pay("k", "tok_ok", 201), pay("k", "tok_ok", 201).as("bob"), pay("k", "tok_ok", 201).as("bob").again(),
	}, counts{charges: 2, attempts: 2}},
	{"a stranger gets no stored response", []step{ // Case 24
		pay("k", "tok_ok", 201), pay("k", "tok_ok", 401).as("nobody").with("Bearer USER is required"),
	}, counts{charges: 1, attempts: 1}},
	{"a stranger learns nothing of keys", []step{
		pay("", "tok_ok", 401).as("nobody"), pay("", "tok_ok", 401).as(" "),
	}, counts{}},
	{"a key is required", []step{
		pay("", "tok_ok", 400).with("Idempotency-Key header is required"),
		refund("", "tok_ok", 400), join("", "ada@example.com", 400),
		{path: "/notes", body: `{"text":"hi"}`, status: 400},
	}, counts{}},
}
