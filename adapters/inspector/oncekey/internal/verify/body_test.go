package verify

import (
	"strings"
	"testing"
)

// Each spelling changes one place of the body, and keeps the bytes around it.
func TestSpellings(t *testing.T) {
	t.Parallel()
	const body = "{ \"currency\" : \"EUR\", \"amount\": 4200,\n \"items\": [ 1, 1, 2 ], \"to\": {\"a\": \"b\"} } "
	for name, row := range map[string]struct {
		spell      func([]byte) ([]byte, bool)
		body, want string
	}{
		"member order":                {otherMemberOrder, body, "{ \"amount\": 4200, \"currency\" : \"EUR\",\n \"items\": [ 1, 1, 2 ], \"to\": {\"a\": \"b\"} } "},
		"member order inside":         {otherMemberOrder, `{"to":{"a":1,"b":2}}`, `{"to":{"b":2,"a":1}}`},
		"member order, in an array":   {otherMemberOrder, `{"all":[{"a":1},{"a":1,"b":"}"}]}`, `{"all":[{"a":1},{"b":"}","a":1}]}`},
		"one member":                  {otherMemberOrder, `{"a":[1,2]}`, ""},
		"number":                      {otherNumberSpelling, body, "{ \"currency\" : \"EUR\", \"amount\": 4200.0,\n \"items\": [ 1, 1, 2 ], \"to\": {\"a\": \"b\"} } "},
		"number, not a fraction":      {otherNumberSpelling, `{"a":1.5,"b":"2","c":[-3]}`, `{"a":1.5,"b":"2","c":[-3.0]}`},
		"no integer":                  {otherNumberSpelling, `{"a":1e3,"b":"2"}`, ""},
		"array":                       {otherArrayOrder, body, "{ \"currency\" : \"EUR\", \"amount\": 4200,\n \"items\": [ 1, 2, 1 ], \"to\": {\"a\": \"b\"} } "},
		"array of equal elements":     {otherArrayOrder, `{"a":[1,1]}`, ""},
		"null":                        {withNull, `{"a":1 }`, `{"a":1,"oncekey_verify":null }`},
		"null in an empty object":     {withNull, ` { } `, `{"oncekey_verify":null}`},
		"another payload":             {OtherPayload, body, "{ \"currency\" : \"EUR\", \"amount\": 4201,\n \"items\": [ 1, 1, 2 ], \"to\": {\"a\": \"b\"} } "},
		"another payload of texts":    {OtherPayload, `{"a":true,"b":["\"é"]}`, `{"a":true,"b":["\"éx"]}`},
		"another payload of nothing":  {OtherPayload, `{"a":true}`, ""},
		"another payload of an array": {OtherPayload, `[1]`, ""},
		"another payload of no JSON":  {OtherPayload, `{"a":1`, ""},
		"a deep one":                  {OtherPayload, `{"a":` + strings.Repeat("[", 100) + "1" + strings.Repeat("]", 100) + `}`, ""},
	} {
		got, is := row.spell([]byte(row.body))
		if string(got) != row.want || is != (row.want != "") {
			t.Errorf("%s: %q becomes %q, want %q", name, row.body, got, row.want)
		}
	}
}

// A hostile body takes no time that grows with the square of its length.
func TestNestedBody(t *testing.T) {
	t.Parallel()
	body := []byte(`{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`)
	for _, spell := range []func([]byte) ([]byte, bool){otherMemberOrder, otherNumberSpelling, otherArrayOrder} {
		if got, is := spell(body); is {
			t.Errorf("an array without elements becomes %.40q", got)
		}
	}
}
