package tablefile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
	"github.com/oncekey/oncekey/policy/tablefile"
)

const good = `# how long our answers are kept
defaults: {TTLHours: 48}
routes:
  POST /payments: {LockTTL: 60s, ExcludeFields: [clientTimestamp, requestNonce]}
  PATCH /members/{id:[0-9]+}:
    Required: false   # the old app sends no keys
    TTLHours: 3
  POST /files/*rest:
  TOOL charge: {Wait: 5s}
  "PUT /:a/:b": {Methods: [PUT, POST], OnStoreError: FailOpen, OnAbandoned: Refuse, MaxRequestBytes: 1024}
`

// A file gives the same table as the same options in code.
func TestParse(t *testing.T) {
	t.Parallel()
	table, err := tablefile.Parse("idempotency.yaml", []byte(good))
	testkit.Must(t, err)
	ttl := policy.TTLHours(48)
	want, err := policy.NewTable(
		policy.TableRow{Source: "idempotency.yaml:4", Route: "POST /payments", Options: []policy.Option{ttl, policy.LockTTL(time.Minute), policy.ExcludeFields("clientTimestamp", "requestNonce")}},
		policy.TableRow{Source: "idempotency.yaml:5", Route: "PATCH /members/{id:[0-9]+}", Options: []policy.Option{policy.TTLHours(3), policy.Required(false)}},
		policy.TableRow{Source: "idempotency.yaml:8", Route: "POST /files/*rest", Options: []policy.Option{ttl}},
		policy.TableRow{Source: "idempotency.yaml:9", Route: "TOOL charge", Options: []policy.Option{ttl, policy.Wait(5 * time.Second)}},
		policy.TableRow{Source: "idempotency.yaml:10", Route: "PUT /:a/:b", Options: []policy.Option{
			ttl, policy.Methods("PUT", "POST"), policy.OnStoreError(policy.FailOpen), policy.OnAbandoned(policy.Refuse), policy.MaxRequestBytes(1024),
		}},
	)
	testkit.Must(t, err)
	if !reflect.DeepEqual(table, want) {
		t.Errorf("got  %+v\nwant %+v", table.Declarations(), want.Declarations())
	}
}

// JSON is YAML, indented by tabs too.
func TestJSON(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]string{
		"one line": `{"defaults":{"TTLHours":48},"routes":{"POST /payments":{"LockTTL":"60s","ExcludeFields":["a"],"Required":false}}}`,
		"spaces":   "{\n  \"defaults\": {\"TTLHours\": 48},\n  \"routes\": {\n    \"POST /payments\": {\n      \"LockTTL\": \"60s\",\n      \"ExcludeFields\": [\"a\"],\n      \"Required\": false\n    }\n  }\n}\n",
		"tabs":     "{\n\t\"defaults\": {\"TTLHours\": 48},\n\t\"routes\": {\n\t\t\"POST /payments\": {\n\t\t\t\"LockTTL\": \"60s\",\n\t\t\t\"ExcludeFields\": [\"a\"],\n\t\t\t\"Required\": false\n\t\t}\n\t}\n}\n",
	}, func(t *testing.T, text string) {
		table, err := tablefile.Parse("idempotency.json", []byte(text))
		testkit.Must(t, err)
		row := table.Declarations()[0]
		if p := row.Policy; row.Route() != "POST /payments" || p.TTL != 48*time.Hour || p.LockTTL != time.Minute || p.Required || !slices.Equal(p.ExcludeFields, []string{"a"}) {
			t.Errorf("got %+v", row)
		}
	})
}

// Case 65: editors on Windows begin a file with a byte order mark, which YAML allows.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	for _, text := range []string{good, "# a comment\n" + good, "---\n" + good, "\n\n" + good, `{"routes": {"POST /payments": {}}}`} {
		marked, err := tablefile.Parse("t.yaml", []byte("\ufeff"+text))
		if err != nil {
			t.Errorf("%.20q: %v", text, err)
			continue
		}
		if plain, err := tablefile.Parse("t.yaml", []byte(text)); err != nil || !reflect.DeepEqual(marked, plain) {
			t.Errorf("%.20q: the mark changes the table (%v)", text, err)
		}
	}
	if _, err := tablefile.Parse("t.yaml", []byte("\ufeff")); !strings.Contains(fmt.Sprint(err), "t.yaml:1: there are no routes") {
		t.Errorf("a mark alone: %v", err)
	}
}

// A file can set every option that takes no function.
func TestEveryOptionHasAName(t *testing.T) {
	t.Parallel()
	plain, err := policy.New(policy.Methods("POST"))
	testkit.Must(t, err)
	_, err = policy.Parse("Nothing=1")
	_, names, _ := strings.Cut(fmt.Sprint(err), "the names are ")
	for name := range strings.SplitSeq(names, ", ") {
		set := 0
		for _, value := range []string{"true", "false", "7", "90m", "FailOpen", "Refuse", "UUID", "[503]", "[POST, PUT]"} {
			table, err := tablefile.Parse("t.yaml", fmt.Appendf(nil, "routes:\n  POST /a: {%s: %s}\n", name, value))
			if err == nil && !reflect.DeepEqual(table.Declarations()[0].Policy, plain) {
				set++
			}
		}
		if set == 0 {
			t.Errorf("%s: no value has an effect", name)
		}
	}
}

func TestInvalidFiles(t *testing.T) {
	t.Parallel()
	type row struct{ text, want string }
	testkit.Each(t, map[string]row{
		"empty":                {"", `t.yaml:1: there are no routes: write "routes:" and list the routes under that key`},
		"a comment":            {"# nothing yet\n", `t.yaml:1: there are no routes`},
		"no routes":            {"defaults: {TTLHours: 1}\nroutes:\n", `t.yaml:1: there are no routes`},
		"no YAML":              {"routes:\n  POST /a: {TTLHours: 1\n", `t.yaml:2: not valid YAML: `},
		"a list":               {"- POST /a\n", `t.yaml:1: the file: - POST /a is not a mapping: write "name: value" pairs`},
		"routes as a list":     {"routes:\n  - POST /a\n", `t.yaml:2: routes: - POST /a is not a mapping`},
		"options as text":      {"routes:\n  POST /a: TTLHours=48\n", `t.yaml:2: POST /a: TTLHours=48 is not a mapping`},
		"two documents":        {"routes: {POST /a: {}}\n---\nroutes: {POST /b: {}}\n", `t.yaml:2: a second document: write one document per file`},
		"unknown section":      {"route:\n  POST /a:\nroutes:\n  POST /a:\n", `t.yaml:1: unknown name "route": the names are defaults, routes`},
		"section twice":        {"routes:\n  POST /a:\nroutes:\n  POST /b:\n", `t.yaml:3: the file: routes is already in line 1`},
		"route twice":          {"routes:\n  POST /a:\n  POST /b:\n  POST /a:\n", `t.yaml:4: routes: POST /a is already in line 2`},
		"route twice, spaced":  {"routes:\n  POST /a:\n  POST  /a:\n", `t.yaml:3: POST /a is declared by t.yaml:2 already`},
		"option twice":         {"routes:\n  POST /a:\n    TTLHours: 1\n    TTLHours: 2\n", `t.yaml:4: POST /a: TTLHours is already in line 3`},
		"TTL as a duration":    {"routes:\n  POST /a:\n    TTL: 1h\n", `t.yaml:3: POST /a: policy: unknown name "TTL": did you mean TTLHours?`},
		"negative hours":       {"routes:\n  POST /a:\n    LockTTL: 1s\n    RememberHours: -2\n", `t.yaml:4: POST /a: policy: RememberHours is -2: it must be a whole number of hours, from 0`},
		"a number as a name":   {"routes:\n  17: {}\n", `t.yaml:2: routes: 17 is not a name: put it in quotes`},
		"a merge":              {"x: &x {TTLHours: 1}\nroutes:\n  POST /a:\n    <<: *x\n", `t.yaml:4: POST /a: << is not a name`},
		"an alias":             {"routes:\n  POST /a: &x {TTLHours: 1}\n  POST /b: *x\n", `t.yaml:3: POST /b: *x is not a mapping`},
		"unknown option":       {"routes:\n  POST /a:\n    LockTTL: 1s\n    TtlHours: 1\n", `t.yaml:4: POST /a: policy: unknown name "TtlHours": did you mean TTLHours?`},
		"unknown default":      {"defaults: {Colour: red}\nroutes:\n  POST /a:\n", `t.yaml:1: defaults: policy: unknown name "Colour": the names are`},
		"text for a number":    {"routes:\n  POST /a: {TTLHours: \"48\"}\n", `t.yaml:2: POST /a: policy: TTLHours is "48": it must be a whole number of hours`},
		"a TTL of zero":        {"routes:\n  POST /a: {TTLHours: 0}\n", `t.yaml:2: POST /a: policy: TTLHours is 0: it must be a whole number of hours, from 1 to 87600 (ten years)`},
		"a fraction":           {"routes:\n  POST /a: {TTLHours: 1.5}\n", `TTLHours is 1.5: it must be a whole number of hours`},
		"a number too large":   {"routes:\n  POST /a: {TTLHours: 18446744073709551615}\n", `t.yaml:2: POST /a: policy: TTLHours is 18446744073709551615: it must be a whole number of hours`},
		"yes for true":         {"routes:\n  POST /a: {Required: yes}\n", `Required is "yes": it must be true or false`},
		"a number for seconds": {"routes:\n  POST /a: {LockTTL: 60}\n", `LockTTL is 60: it must be a duration such as 60s`},
		"text for a list":      {"routes:\n  POST /a: {ExcludeFields: nonce}\n", `ExcludeFields is "nonce": it must be a list of names`},
		"a number in a list":   {"routes:\n  POST /a:\n    ExcludeFields:\n      - a\n      - 17\n", `t.yaml:3: POST /a: policy: ExcludeFields is 17: it must be a list of names: put it in quotes`},
		"a mapping for text":   {"routes:\n  POST /a: {Wait: {a: 1}}\n", `Wait is {a: 1}: it must be a duration such as 2s`},
		"nothing for a number": {"routes:\n  POST /a:\n    TTLHours:\n", `t.yaml:3: POST /a: policy: TTLHours is "": it must be a whole number of hours`},
		"no pattern":           {"routes:\n  POST:\n", `t.yaml:2: "POST" is not a route: the pattern must begin with a slash`},
		"a safe method":        {"routes:\n  GET /a:\n", `t.yaml:2: a policy on GET, which is safe to repeat as it is`},
		"an option's own line": {"routes:\n  POST /a:\n    TTLHours: 1\n    LockTTL: 2h\n", `t.yaml:4: POST /a: policy: LockTTL is 2h0m0s: it must be at most TTL, which is 1h0m0s`},
		"hours' own line":      {"routes:\n  POST /a:\n    Wait: 1s\n    RememberHours: 87600\n", `t.yaml:4: POST /a: policy: Remember is 87600h0m0s: it must be at most`},
		"against the defaults": {"defaults: {TTLHours: 1}\nroutes:\n  POST /a:\n    LockTTL: 2h\n", `t.yaml:4: POST /a: policy: LockTTL is 2h0m0s`},
		// Case 65: YAML 1.1 and 1.2 read these numbers differently.
		"an octal number":        {"routes:\n  POST /a:\n    TTLHours: 010\n", `t.yaml:3: POST /a: policy: TTLHours is 010: it must be a whole number in decimal, without a sign, a leading zero or an underscore`},
		"leading zeros":          {"routes:\n  POST /a: {TTLHours: 00012}\n", `t.yaml:2: POST /a: policy: TTLHours is 00012: it must be a whole number in decimal`},
		"octal, in the defaults": {"defaults:\n  TTLHours: 010\nroutes:\n  POST /a:\n", `t.yaml:2: defaults: policy: TTLHours is 010`},
		"octal of YAML 1.2":      {"routes:\n  POST /a: {TTLHours: 0o10}\n", `t.yaml:2: POST /a: policy: TTLHours is 0o10: it`},
		"octal, negative":        {"routes:\n  POST /a: {TTLHours: -010}\n", `t.yaml:2: POST /a: policy: TTLHours is -010: it`},
		"hexadecimal":            {"routes:\n  POST /a: {MaxRequestBytes: 0x10}\n", `t.yaml:2: POST /a: policy: MaxRequestBytes is 0x10: it`},
		"binary":                 {"routes:\n  POST /a: {MaxRequestBytes: 0b11}\n", `MaxRequestBytes is 0b11: it`},
		"an underscore":          {"routes:\n  POST /a: {TTLHours: 1_000}\n", `TTLHours is 1_000: it`},
		"a plus":                 {"routes:\n  POST /a: {TTLHours: +5}\n", `TTLHours is +5: it`},
		"octal for a switch":     {"routes:\n  POST /a: {Required: 010}\n", `Required is 010: it`},
		"zeros":                  {"routes:\n  POST /a: {TTLHours: 00}\n", `TTLHours is 00: it`},
		"not octal":              {"routes:\n  POST /a: {TTLHours: 08}\n", `TTLHours is "08": it must be`},
		"sexagesimal":            {"routes:\n  POST /a: {LockTTL: 1:30}\n", `LockTTL is "1:30": it must be`},
		"infinity":               {"routes:\n  POST /a: {TTLHours: .inf}\n", `TTLHours is .inf: it must be`},
		"off for false":          {"routes:\n  POST /a: {Required: off}\n", `Required is "off": it must be true or false`},
		"an empty list item":     {"routes:\n  POST /a:\n    ExcludeFields:\n      - a\n      -\n", `t.yaml:3: POST /a: policy: ExcludeFields is an empty item: it must be a list of names`},
		"a mark inside the file": {"routes:\n  \ufeffPOST /a:\n", `t.yaml:2: "\ufeffPOST /a" is not a route`},
		"UTF-16":                 {"\xff\xfer\x00o\x00u\x00", `t.yaml:1: the file is not UTF-8: save it as UTF-8`},
		"UTF-16, big-endian":     {"\xfe\xff\x00r", `t.yaml:1: the file is not UTF-8`},
		"Latin-1":                {"routes:\n  POST /a: {}\n  # f\xfcr\n", `t.yaml:3: the file is not UTF-8`},
		"a byte in a route":      {"routes:\n  \"POST /a\xff\": {}\n", `t.yaml:2: the file is not UTF-8`},
		"a directive":            {"%YAML 1.1\n---\nroutes:\n  POST /a: {}\n", `t.yaml:1: a directive is not supported: remove the line`},
		"a control character":    {"routes:\n  POST /a:\n    TTLHours: 1\n    ExcludeFields: [\"a\\nb\"]\n", `t.yaml:4: POST /a: policy: ExcludeFields is "a\nb": it must be`},
		"a literal as a number":  {"routes:\n  POST /a:\n    TTLHours: |\n      48\n", `TTLHours is "48\n": it must be`},
	}, func(t *testing.T, c row) {
		table, err := tablefile.Parse("t.yaml", []byte(c.text))
		if err == nil || table != nil || !strings.Contains(err.Error(), c.want) {
			t.Fatalf("got  %v\nwant %s", err, c.want)
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if strings.Count(line, "t.yaml:") == 0 {
				t.Errorf("a line without a place: %s", line)
			}
		}
	})
}

func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	_, err := tablefile.Parse("t.yaml", []byte(`defaults: {TtlHours: 48}
routes:
  POST payments: {Colour: red, LockTTL: 60}
  GET /payments:
  POST /refunds: {TTLHours: 1, LockTTL: 2h, Wait: -1s}
  POST /fine:
tables: {}
`))
	want := []string{
		`t.yaml:7: unknown name "tables": the names are defaults, routes`,
		`t.yaml:1: defaults: policy: unknown name "TtlHours": did you mean TTLHours?`,
		`t.yaml:3: POST payments: policy: unknown name "Colour": the names are TTLHours, RememberHours, `,
		`t.yaml:3: POST payments: policy: LockTTL is 60: it must be a duration such as 60s`,
		`t.yaml:3: "POST payments" is not a route: the pattern must begin with a slash, as in "POST /payments"`,
		`t.yaml:4: a policy on GET, which is safe to repeat as it is: declare policies on POST, PATCH, PUT or DELETE`,
		`t.yaml:5: POST /refunds: policy: LockTTL is 2h0m0s: it must be at most TTL, which is 1h0m0s`,
		`t.yaml:5: POST /refunds: policy: Wait is -1s: it must be zero, or at least 1ms`,
	}
	got := strings.Split(fmt.Sprint(err), "\n")
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if field, found := errors.AsType[*policy.FieldError](err); !found || field.Field != "LockTTL" {
		t.Error("no FieldError is found")
	}
}

// Wrong defaults are reported once, for any number of routes.
func TestWrongDefaultsAreReportedOnce(t *testing.T) {
	t.Parallel()
	_, err := tablefile.Parse("t.yaml", []byte("defaults:\n  MaxRun: 0s\nroutes:\n  POST /a:\n  POST /b: {Wait: 1s}\n"))
	testkit.Equal(t, fmt.Sprint(err), "t.yaml:2: defaults: policy: MaxRun is 0s: it must be at least 1ms", "the error")
}

func TestRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "idempotency.yaml")
	if _, err := tablefile.Read(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(fmt.Sprint(err), path) {
		t.Errorf("got %v", err)
	}
	testkit.Must(t, os.WriteFile(path, []byte(good), 0o600))
	table, err := tablefile.Read(path)
	testkit.Must(t, err)
	testkit.Equal(t, table.Declarations()[0].Source, path+":4", "the first row is from")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"routes":{"POST /a":{"LockTTL":"60s"}}}`))
	f.Add([]byte("routes:\n  POST /a: &x {TTLHours: 1}\n  POST /b: *x\n  ? [a]\n  : b\n"))
	f.Add([]byte("routes:\n  POST /a:\n---"))
	f.Add([]byte("!!map {routes: !x y}\n--- |\n a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := tablefile.Parse("t.yaml", data)
		if (err == nil) == (table == nil) {
			t.Fatalf("got %v and %v", table, err)
		}
		if err != nil {
			return
		}
		for _, row := range table.Declarations() {
			if !row.Guarded || !row.Policy.Guards(row.Method) || row.Policy.Validate() != nil {
				t.Errorf("let through: %+v", row)
			}
		}
	})
}

func ExampleParse() {
	table, err := tablefile.Parse("idempotency.yaml", []byte(`
defaults: {TTLHours: 48}
routes:
  POST /payments: {LockTTL: 60s, ExcludeFields: [clientTimestamp, requestNonce]}
  PATCH /members/{id}: {Required: false}
`))
	for _, row := range table.Declarations() {
		fmt.Println(row.Source, row.Route(), row.Policy.TTL, row.Policy.LockTTL, row.Policy.Required)
	}
	fmt.Println(err)

	_, err = tablefile.Parse("idempotency.yaml", []byte("routes:\n  POST /payments:\n    TTLHours: 1\n    LockTTL: 2h\n  GET /payments: {}\n"))
	fmt.Println(err)
	// Output:
	// idempotency.yaml:4 POST /payments 48h0m0s 1m0s true
	// idempotency.yaml:5 PATCH /members/{id} 48h0m0s 30s false
	// <nil>
	// idempotency.yaml:4: POST /payments: policy: LockTTL is 2h0m0s: it must be at most TTL, which is 1h0m0s
	// idempotency.yaml:5: a policy on GET, which is safe to repeat as it is: declare policies on POST, PATCH, PUT or DELETE
}

// Case 76: statuses may be numbers, also one alone. An error names the field, the value and the line.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{Keep: [422]}": "Keep=422", "{Keep: 422}": "Keep=422", "{Keep: 5xx}": "Keep=5xx", `{Release: "422", Uncertain: [502, "504"]}`: "Release=422 Uncertain=502,504",
		"{Uncertain: 1000}":   "f.yaml:2: POST /a: policy: Uncertain is \"1000\": it must be a status from 200 to 599, or a class such as 5xx",
		"{Uncertain: [1000]}": "f.yaml:2: POST /a: policy: Uncertain is \"1000\": it must be a status from 200 to 599, or a class such as 5xx",
		"{Keep: 0x1A6}":       "f.yaml:2: POST /a: policy: Keep is \"0x1A6\": it must be a status from 200 to 599, or a class such as 5xx",
		"{Release: [4.5]}":    "f.yaml:2: POST /a: policy: Release is 4.5: it must be a list of names: put it in quotes",
		"{Release: true}":     "f.yaml:2: POST /a: policy: Release is true: it must be a list of names",
		"{Methods: 422}":      "f.yaml:2: POST /a: policy: Methods is 422: it must be a list of names",
		"{Methods: [17]}":     "f.yaml:2: POST /a: policy: Methods is 17: it must be a list of names: put it in quotes",
	} {
		table, err := tablefile.Parse("f.yaml", []byte("routes:\n  POST /a: "+text+"\n"))
		got := fmt.Sprint(err)
		if err == nil {
			declared := table.Declarations()[0].Policy
			got = strings.TrimPrefix(declared.String(), "Methods=POST ")
		}
		testkit.Equal(t, got, want, "%s", text)
	}
}

// Case 79: a file that is too large or too deep is refused before the parser sees it, which needs time that grows with the
// square of the depth. A message of the parser would say that it was not.
func TestBounds(t *testing.T) {
	t.Parallel()
	var indented strings.Builder
	for i := range 500 {
		indented.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, text := range map[string]string{
		"brackets": strings.Repeat("[", 100_000), "braces": strings.Repeat("{a: ", 50_000), "lines of brackets": strings.Repeat("[\n", 100_000),
		"items": strings.Repeat("- ", 100_000), "keys": strings.Repeat("? ", 100_000), "indentation": indented.String(), "in a table": "routes:\n  POST /a: " + strings.Repeat("[", 101),
	} {
		if _, err := tablefile.Parse("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "nested more than 100 levels deep") {
			t.Errorf("%s: %.200v, want the depth", name, err)
		}
	}
	if _, err := tablefile.Parse("f.yaml", []byte(strings.Repeat("a: |- # b\n", 20_000))); err == nil || !strings.Contains(err.Error(), "more than 100 block texts") {
		t.Errorf("block texts: %.200v, want the limit", err)
	}
	large := strings.Repeat("#\n", 500_000)
	file := filepath.Join(t.TempDir(), "large.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(large), 0o600))
	_, read := tablefile.Read(file)
	_, parsed := tablefile.Parse("f.yaml", []byte(large))
	for _, err := range []error{read, parsed} {
		if err == nil || !strings.Contains(err.Error(), "the file has more than 262144 bytes") {
			t.Errorf("a megabyte: %v, want the limit", err)
		}
	}
	// A table of many routes, with brackets in patterns, quotes and comments, is read.
	var many strings.Builder
	many.WriteString("# [{ :-[\nroutes:\n")
	for i := range 2000 {
		fmt.Fprintf(&many, "  \"PATCH /members/{id:[0-9]+}/%d\": {ExcludeFields: [a, b], Keep: [422]}\n", i)
	}
	if _, err := tablefile.Parse("f.yaml", []byte(many.String())); err != nil {
		t.Error(err)
	}
}
