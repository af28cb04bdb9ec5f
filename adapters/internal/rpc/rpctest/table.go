package rpctest

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/policy"
)

// table checks the faults of tables.
func (a *Adapter) table(t *testing.T) {
	engine := NewEngine(t, nil, scopeByUser)
	for name, row := range map[string]struct {
		row  policy.TableRow
		want string
	}{
		"an unknown service":      {policy.Row("POST /oncekey.shop.v1.Shop/Pay"), `the program links no service "oncekey.shop.v1.Shop"`},
		"a service as a message":  {policy.Row("POST /oncekey.shop.v1.Payment/Pay"), `the program links no service`},
		"an unknown method":       {policy.Row("POST /oncekey.shop.v1.Payments/Pya"), `has no method "Pya"`},
		"a stream":                {policy.Row("POST " + Watch), "a stream cannot be stored"},
		"a read":                  {policy.Row("POST " + Find), "NO_SIDE_EFFECTS"},
		"another method of HTTP":  {policy.Row("PUT " + Pay), "declared with POST"},
		"redaction":               {policy.Row("POST "+Pay, policy.RedactFields("id")), "RedactFields"},
		"an unknown key field":    {policy.Row("POST "+Pay, policy.KeyField("requestId")), "KeyField"},
		"a message as key":        {policy.Row("POST "+Pay, policy.KeyField("client_time")), "KeyField"},
		"a list as key":           {policy.Row("POST "+Pay, policy.KeyField("items.sku")), ""},
		"a map as key":            {policy.Row("POST "+Pay, policy.KeyField("labels.key")), "KeyField"},
		"a flag as key":           {policy.Row("POST "+Pay, policy.KeyField("gift")), "KeyField"},
		"a field of a scalar":     {policy.Row("POST "+Pay, policy.KeyField("amount.value")), "KeyField"},
		"what the engine refuses": {policy.Row("POST "+Pay, policy.Transactional(true)), "Transactional"},
	} {
		table, err := policy.NewTable(row.row)
		if err != nil {
			t.Fatal(err)
		}
		if err = a.New(engine, table); err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "row 1") {
			t.Errorf("%s: the error is %v, want one with %q and the row", name, err, row.want)
		}
	}
	if table, err := policy.NewTable(policy.Row("POST "+Pay), policy.Row("TOOL charge")); err != nil || a.New(engine, table) != nil || a.New(nil, table) == nil {
		t.Errorf("the row of a tool is not skipped, or no engine is no error: %v", err)
	}
	if _, err := policy.NewTable(policy.Row("POST "+Pay), policy.Row("POST "+Pay)); err == nil {
		t.Error("a repeated row was accepted")
	}
	if err := errors.Join(a.New(nil, nil), a.New(engine, nil)); err == nil || strings.Count(err.Error(), "nil") < 2 {
		t.Errorf("nil arguments: %v", err)
	}
}
