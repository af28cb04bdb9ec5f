package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func TestTable(t *testing.T) {
	t.Parallel()
	table, err := policy.NewTable(
		policy.Row("POST /payments", policy.TTLHours(48), policy.LockTTL(time.Minute)),
		policy.Row("PUT /members/{id}"),
		policy.TableRow{Source: "policies.yaml:7", Route: "PATCH /members/{id}", Options: []policy.Option{policy.Required(false)}},
		policy.Row("TOOL shop/create_order-v2.1", policy.TTLHours(48)),
		policy.Row("TOOL "+strings.Repeat("t", 128)),
	)
	testkit.Must(t, err)
	rows := table.Declarations()
	var seen []string
	for _, row := range rows {
		seen = append(seen, fmt.Sprint(row.Source, ": ", row.Route(), " ", row.Guarded, row.Policy.TTL, row.Policy.Methods, row.Policy.Required))
	}
	want := []string{
		"row 1: POST /payments true 48h0m0s [POST] true",
		"row 2: PUT /members/{id} true 24h0m0s [PUT] true",
		"policies.yaml:7: PATCH /members/{id} true 24h0m0s [PATCH] false",
		"row 4: TOOL shop/create_order-v2.1 true 48h0m0s [TOOL] true",
		"row 5: TOOL " + strings.Repeat("t", 128) + " true 24h0m0s [TOOL] true",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("got  %q\nwant %q", seen, want)
	}
	rows[0].Pattern = "/changed"
	testkit.Equal(t, table.Declarations()[0].Pattern, "/payments", "a table can be changed from outside")
}

func TestTableReportsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	table, err := policy.NewTable(
		policy.Row("POST /payments"),
		policy.Row("POST payments", policy.TTLHours(0)),
		policy.Row("GET /payments"),
		policy.Row("POST /refunds", policy.TTLHours(1), policy.LockTTL(2*time.Hour), policy.Wait(-1)),
		policy.Row("POST /orders", policy.Methods("PATCH")),
		policy.TableRow{Source: "policies.yaml:9", Route: "POST /payments"},
	)
	if table != nil {
		t.Error("NewTable returned a table despite invalid rows")
	}
	want := []string{
		`policy: row 2: "POST payments" is not a route: the pattern must begin with a slash, as in "POST /payments"`,
		`policy: row 2: POST payments: policy: TTL is 0s: it must be from 1ms to 87600h0m0s (ten years)`,
		`policy: row 2: POST payments: policy: LockTTL is 30s: it must be at most TTL, which is 0s`,
		`policy: row 3: GET /payments: a policy on GET, which is safe to repeat as it is: declare policies on POST, PATCH, PUT or DELETE`,
		`policy: row 4: POST /refunds: policy: LockTTL is 2h0m0s: it must be at most TTL, which is 1h0m0s`,
		`policy: row 4: POST /refunds: policy: Wait is -1ns: it must be zero, or at least 1ms`,
		`policy: row 5: POST /orders: policy: Methods is "PATCH": it must be left out, or name the route's own method, POST`,
		`policy: policies.yaml:9: POST /payments is declared by row 1 already`,
	}
	if got := strings.Split(fmt.Sprint(err), "\n"); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if field, found := errors.AsType[*policy.FieldError](err); !found || field.Field != "TTL" {
		t.Error("no FieldError is found")
	}
}

// A row names a tool by a name that MCP allows.
func TestToolsOfATable(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "pay card", "pay:card", "größe", "{id}", strings.Repeat("t", 129)} {
		_, err := policy.NewTable(policy.Row("TOOL " + name))
		want := fmt.Sprintf(`policy: row 1: %q names no tool: write 1 to 128 letters, digits and _ - . / after TOOL, as in "TOOL charge"`, "TOOL "+name)
		testkit.Equal(t, fmt.Sprint(err), want, "the error")
	}
	if _, err := policy.NewTable(policy.Row("TOOL pay"), policy.Row("TOOL pay")); err == nil {
		t.Error("a tool with two rows is accepted")
	}
}

func TestReportErr(t *testing.T) {
	t.Parallel()
	lost := errors.New("lost")
	report := policy.Report{Errors: []error{lost}, Warnings: []string{"POST /a is not guarded"}}
	if !errors.Is(report.Err(), lost) {
		t.Errorf("got %v", report.Err())
	}
	if report = (policy.Report{Warnings: report.Warnings}); report.Err() != nil {
		t.Errorf("a warning is an error: %v", report.Err())
	}
}

func TestNamedReportsTheExpectedForm(t *testing.T) {
	t.Parallel()
	for want, given := range map[string]struct {
		name  string
		value any
	}{
		`policy: TTLHours is "48": it must be a whole number of hours`:            {"TTLHours", "48"},
		`policy: Required is "true": it must be true or false`:                    {"Required", "true"},
		`policy: LockTTL is 60: it must be a duration such as 60s`:                {"LockTTL", int64(60)},
		`policy: ExcludeFields is "nonce": it must be a list of names`:            {"ExcludeFields", "nonce"},
		`policy: Wait is [1s]: it must be a duration such as 2s`:                  {"Wait", []string{"1s"}},
		`policy: OnStoreError is "open": it must be FailClosed or FailOpen`:       {"OnStoreError", "open"},
		`policy: MaxRequestBytes is 1.5: it must be a whole number of bytes`:      {"MaxRequestBytes", 1.5},
		`policy: unknown name "ttlHours": did you mean TTLHours?`:                 {"ttlHours", int64(1)},
		`policy: unknown name "Colour": the names are TTLHours, RememberHours, L`: {"Colour", nil},
	} {
		if _, err := policy.Named(given.name, given.value); !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func ExampleNewTable() {
	table, err := policy.NewTable(
		policy.Row("POST /payments", policy.TTLHours(48)),
		policy.Row("PATCH /members/{id}", policy.Required(false)),
	)
	for _, row := range table.Declarations() {
		fmt.Println(row.Route(), row.Policy.TTL, row.Policy.Required)
	}
	fmt.Println(err)

	_, err = policy.NewTable(policy.Row("GET /payments"), policy.Row("POST /refunds", policy.TTLHours(-1), policy.LockTTL(0)))
	fmt.Println(err)
	// Output:
	// POST /payments 48h0m0s true
	// PATCH /members/{id} 24h0m0s false
	// <nil>
	// policy: row 1: GET /payments: a policy on GET, which is safe to repeat as it is: declare policies on POST, PATCH, PUT or DELETE
	// policy: row 2: POST /refunds: policy: TTL is -1h0m0s: it must be from 1ms to 87600h0m0s (ten years)
	// policy: row 2: POST /refunds: policy: LockTTL is 0s: it must be at least 1ms
	// policy: row 2: POST /refunds: policy: LockTTL is 0s: it must be at most TTL, which is -1h0m0s
}
