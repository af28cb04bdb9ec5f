package fingerprint_test

import (
	"fmt"

	"github.com/oncekey/oncekey/fingerprint"
)

func ExampleOf() {
	exclusion, err := fingerprint.Exclude("sentAt", "meta.trace.id")
	if err != nil {
		panic(err)
	}
	payment := func(body string) string {
		return fingerprint.Of(fingerprint.Request{
			Method: "POST", Path: "/payments", ContentType: "application/json", Body: []byte(body),
		}, exclusion)
	}
	first := payment(`{"amount":1999,"currency":"EUR","sentAt":"12:00:00"}`)
	retry := payment(`{"sentAt":"12:00:07","currency":"EUR","amount":1999}`)
	other := payment(`{"amount":4999,"currency":"EUR","sentAt":"12:00:00"}`)
	fmt.Println("retry is the same:", first == retry)
	fmt.Println("other is the same:", first == other)
	fmt.Println(first)
	// Output:
	// retry is the same: true
	// other is the same: false
	// sha256:314f6f62e2b3c3e350760e150bcbcc9d2ba49fd8800d2b83c982dfc4f6334450
}

func ExampleStrip() {
	rest, err := fingerprint.Strip(
		[]byte(`{"amount":1999,"nonce":"x1","items":[{"sku":"a","at":1},{"sku":"b","at":2}]}`),
		[]string{"nonce", "items.*.at"},
	)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(rest))
	// Output: {"amount":1999,"items":[{"sku":"a"},{"sku":"b"}]}
}

func ExampleExclude_error() {
	_, err := fingerprint.Exclude("meta..id")
	fmt.Println(err)
	// Output: fingerprint: cannot exclude "meta..id": a path needs a name on both sides of every dot; write \. for a dot that is part of a name
}

func ExampleReading_Differences() {
	key := [16]byte{ /* 16 secret bytes that readers of the record do not have */ }
	payment := func(body string) fingerprint.Request {
		return fingerprint.Request{Method: "POST", Path: "/payments", ContentType: "application/json", Body: []byte(body)}
	}
	first := fingerprint.Read(payment(`{"amount":1999,"meta":{"sentAt":"12:00:00"}}`), nil)
	sketch := first.AppendSketch(nil, key) // kept in the record
	first.Close()
	retry := fingerprint.Read(payment(`{"amount":1999,"meta":{"sentAt":"12:00:31"}}`), nil)
	defer retry.Close()
	names, others, missing := retry.Differences(sketch, key)
	fmt.Println(names, others, missing)
	// Output: [meta.sentAt] 0 0
}
