package pgstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/testkit"
	"github.com/oncekey/oncekey/core/storage"
)

// A few abandoned keys among many are found in one call, and the first screen of a page
// for operators is there at once. With ONCEKEY_SOAK there are a million keys.
func TestSoakFewAbandonedAmongMany(t *testing.T) {
	t.Parallel()
	const abandoned = 12
	store, pool := open(t)
	many := testkit.Many(30_000)
	execute(t, pool, `
INSERT INTO oncekey.records (key, version, state, attempt, took_over, token, fingerprint, lease_until, expires_at, status, claimed_at, body)
SELECT encode(sha256(n::text::bytea), 'hex'), 1, CASE WHEN n <= $2 THEN 'in_progress' ELSE 'completed' END, 1, false, gen_random_uuid(),
	'sha256:' || encode(sha256(n::text::bytea), 'hex'), CASE WHEN n <= $2 THEN now() END, now() + interval '1 day', CASE WHEN n > $2 THEN 201 END,
	now() - interval '1 minute', CASE WHEN n > $2 THEN convert_to(repeat('x', 300), 'UTF8') END
FROM generate_series(1, $1::int) AS n`, many, abandoned)
	execute(t, pool, `VACUUM ANALYZE oncekey.records`) // as autovacuum does
	start := time.Now()
	l, err := store.List(t.Context(), storage.Filter{Abandoned: true}, storage.Page{Limit: 100, LookAt: many, Within: time.Minute})
	took := time.Since(start)
	must(t, err)
	if len(l.Entries) != abandoned || l.LookedAt != many {
		t.Errorf("one call has found %d abandoned keys, and looked at %d: want %d and %d", len(l.Entries), l.LookedAt, abandoned, many)
	}
	t.Logf("%d abandoned among %d: %s", len(l.Entries), many, took)
	for name, filter := range map[string]storage.Filter{
		"all": {}, "abandoned": {Abandoned: true}, "unreplayable": {States: []storage.State{storage.Unreplayable}}, "a route": {Route: "POST /payments"},
		"old": {OlderThan: time.Hour},
	} {
		start := time.Now()
		l, err := store.List(t.Context(), filter, storage.Page{Limit: 100, Within: 200 * time.Millisecond})
		must(t, err)
		if l.Next == "" && len(l.Entries) < abandoned || strings.Contains(l.Next, " ") {
			t.Errorf("%s: the first screen has %d records and the cursor %q", name, len(l.Entries), l.Next)
		}
		t.Logf("first screen, %s: %d records, looked at %d in %s", name, len(l.Entries), l.LookedAt, time.Since(start))
	}
}
