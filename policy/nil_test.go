package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Case 65: a nil option, function or table is named, where it is declared.
func TestNilIsNamed(t *testing.T) {
	t.Parallel()
	type api struct {
		Pay func() `route:"POST /payments" idempotency:""`
	}
	var none policy.Option
	type row struct {
		declare func() error
		want    string
	}
	testkit.Each(t, map[string]row{
		"New": {
			func() error { _, err := policy.New(policy.TTLHours(1), nil, policy.Required(false), none); return err },
			"policy: option 2 is nil: leave it out\npolicy: option 4 is nil: leave it out",
		},
		"New, with another mistake": {
			func() error { _, err := policy.New(nil, policy.TTLHours(0)); return err },
			"policy: option 1 is nil: leave it out\npolicy: TTL is 0s",
		},
		"NewTable": {
			func() error { _, err := policy.NewTable(policy.Row("POST /a", nil)); return err },
			"policy: row 1: POST /a: policy: option 1 is nil",
		},
		"a row without a method": {
			func() error { _, err := policy.NewTable(policy.Row("", policy.TTLHours(1), nil)); return err },
			"option 2 is nil",
		},
		"Also": {
			func() error { _, err := policy.Declarations(api{}, policy.Also("Pay", nil)); return err },
			`policy: api.Pay: idempotency:"": policy: option 1 is nil`,
		},
		"Recover": {
			func() error { _, err := policy.New(policy.OnAbandoned(policy.Recover(nil))); return err },
			"policy: OnAbandoned is Recover: it must be given a function, or be Reexecute or Refuse",
		},
		"Named":        {func() error { _, err := policy.Named("TTLHours", nil); return err }, "policy: TTLHours is <nil>: it must be a whole number of hours"},
		"Declarations": {func() error { _, err := policy.Declarations(nil); return err }, "policy: <nil> has no annotations"},
	}, func(t *testing.T, c row) {
		if got := fmt.Sprint(c.declare()); !strings.Contains(got, c.want) {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	})
}

// Case 65: a program that ignored the error of NewTable would guard no route.
func TestNilTablePanicsByName(t *testing.T) {
	t.Parallel()
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "policy: the Table is nil") {
			t.Errorf("panicked with %s", text)
		}
	}()
	var table *policy.Table
	table.Declarations()
}
