package adapters_test

import (
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// A key of another format is refused, and the problem names the format.
func TestKeyFormat(t *testing.T) {
	t.Parallel()
	const uuid = "8e03978e-40d5-43dd-bc93-6894a57f9324"
	for _, row := range []struct {
		format policy.KeySyntax
		key    string
		want   string
	}{
		{policy.UUIDKey, uuid, "Idempotency-Key must be a UUID, such as 8e03978e-40d5-43dd-bc93-6894a57f9324"},
		{policy.KeyPattern("ord_[0-9]{6}"), "ord_000017", "Idempotency-Key must be a key that matches ord_[0-9]{6}"},
	} {
		onCase(t, row.format.String(), everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{policy: []policy.Option{policy.KeyFormat(row.format)}})
			s.runsAgain(payment(row.key))
			s.replays(payment(`"` + row.key + `"`))
			for _, key := range []string{"k", row.key + "0"} {
				p := problemIn(t, s.do(payment(key)))
				if p.Code != problem.KeyInvalid || p.Error != row.want || !strings.Contains(p.Detail, row.format.Expected()) {
					t.Errorf("got %+v, want %s", p, row.want)
				}
			}
			s.ran(1)
			field := m.start(t, program{policy: []policy.Option{policy.KeyFormat(row.format), policy.KeyField("id")}})
			field.runsAgain(body(`{"id":"` + row.key + `"}`))
			if p := problemIn(t, field.do(body(`{"id":"k"}`))); p.Code != problem.KeyInvalid || p.Error != strings.Replace(row.want, "Idempotency-Key", "id", 1) {
				t.Errorf("got %+v, want a problem that names the field", p)
			}
		})
	}
}
