package redisstore_test

import (
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// copyScript copies the value of KEYS[1] to the keys from ARGV[1] to ARGV[2].
const copyScript = `
local value, left = redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])
for n = ARGV[1], ARGV[2] do
	redis.call('SET', ARGV[3] .. redis.sha1hex(n) .. string.format('%024x', n), value, 'PX', left)
end
return 1`

// A few abandoned keys among many are found in one call, and the first screen of a page
// for operators is there at once. With ONCEKEY_SOAK there are a million keys.
func TestSoakFewAbandonedAmongMany(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	many, abandoned := testkit.Many(30_000), 12
	must(t, store.Complete(t.Context(), win(t, store, claim("original")), result("a response")))
	for n := 1; n <= many-abandoned-1; n += 50_000 {
		must(t, rdb.Eval(t.Context(), copyScript, []string{"oncekey:original"}, n, min(n+49_999, many-abandoned-1), "oncekey:").Err())
	}
	for n := range abandoned {
		c := claim(storage.Key("", "", "", string(rune('a'+n))))
		must(t, store.Extend(t.Context(), win(t, store, c), 0))
	}
	start := time.Now()
	l, err := store.List(t.Context(), storage.Filter{Abandoned: true}, storage.Page{Limit: 100, LookAt: 2 * many, Within: time.Minute})
	must(t, err)
	if len(l.Entries) != abandoned || l.LookedAt < many || l.Next != "" {
		t.Errorf("one call has found %d abandoned keys, and looked at %d: want %d and %d", len(l.Entries), l.LookedAt, abandoned, many)
	}
	t.Logf("%d abandoned among %d: %s", len(l.Entries), many, time.Since(start))
	for name, filter := range map[string]storage.Filter{
		"all": {}, "abandoned": {Abandoned: true}, "unreplayable": {States: []storage.State{storage.Unreplayable}}, "a route": {Route: "POST /payments"},
		"old": {OlderThan: time.Hour},
	} {
		start := time.Now()
		l, err := store.List(t.Context(), filter, storage.Page{Limit: 100, Within: 200 * time.Millisecond})
		must(t, err)
		if l.LookedAt == 0 || len(l.Next) > 4000 {
			t.Errorf("%s: the first screen has looked at %d records, and its cursor has %d bytes", name, l.LookedAt, len(l.Next))
		}
		t.Logf("first screen, %s: %d records, looked at %d in %s, a cursor of %d bytes", name, len(l.Entries), l.LookedAt, time.Since(start), len(l.Next))
	}
}
