package endtoend

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

func TestRedisUnreachableBeforeTheHandler(t *testing.T) {
	t.Parallel()
	testkit.Each(t, outages, func(t *testing.T, outage outage) {
		f := newFixture(t, 30*time.Second)
		f.storeTimeout = outage.storeTimeout
		first, second := f.startTwo()
		pay := payment("tok_ok")

		outage.begin(f.redis)
		for _, process := range []*instance{first, second} {
			process.send(pay).expect(t, unavailable)
			testkit.Equal(t, process.attempts(), 0, "handlers that ran without a store")
		}
		outage.end(f.redis)
		original := first.retryThrough(pay).expect(t, created)
		second.retryThrough(pay).expectCopyOf(t, original)
		f.expectEffects(chargeBy(first, pay, 1))
	})
}

// Case 13
func TestRedisUnreachableWhenTheHandlerEnds(t *testing.T) {
	t.Parallel()
	testkit.Each(t, outages, func(t *testing.T, outage outage) {
		f := newFixture(t, 30*time.Second, redistest.Persistent()...)
		f.storeTimeout = outage.storeTimeout
		first, second := f.startTwo()
		pay := payment("tok_slow:4s")

		answers := first.begin(pay)
		outage.begin(f.redis)
		original := (<-answers).expect(t, created) // the real response: the money is gone
		first.send(pay).expectCopyOf(t, original)  // the process remembers the response
		second.send(pay).expect(t, unavailable)

		outage.end(f.redis)
		second.retryThrough(pay).expectCopyOf(t, original)
		first.send(pay).expectCopyOf(t, original)
		f.expectEffects(chargeBy(first, pay, 1))
	})
}

// Case 12
func TestRedisFrozen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 30*time.Second)
	f.storeTimeout = shortStoreTimeout
	first, second := f.startTwo()
	pay := payment("tok_ok")
	// Over open connections, claims reach the frozen server and take effect in the end, when
	// their requests are over.
	earlier := payment("tok_ok").withKey("key-0")
	first.send(earlier).expect(t, created)
	second.send(earlier).expect(t, replayed)

	f.redis.Pause()
	for _, process := range []*instance{first, second} {
		const slack = 8 * time.Second
		sent := time.Now()
		process.send(pay).expect(t, unavailable)
		if took := time.Since(sent); took > f.storeTimeout+slack {
			t.Errorf("the refusal took %v, want about %v", took, f.storeTimeout)
		}
	}
	testkit.Equal(t, first.attempts()+second.attempts(), 1, "handlers that ran")
	first.send(note()).expect(t, created) // its policy says FailOpen
	unguarded := effect{Kind: "note", PID: first.Pid(), Text: "call back", User: "alice", Key: note().key}
	f.expectEffects(chargeBy(first, earlier, 1), unguarded)
	first.expectEvent("unprotected")

	f.redis.Resume()
	original := second.retryThrough(pay).expect(t, created)
	first.retryThrough(pay).expectCopyOf(t, original)
	f.expectEffects(chargeBy(first, earlier, 1), unguarded, chargeBy(second, pay, 1))
}

// Case 15
func TestRedisForgetsItsScripts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 30*time.Second)
	first, second := f.startTwo()
	rdb := service.Redis(t, redis.Options{Addr: f.redis.Addr()})
	forget := func() {
		testkit.Must(t, rdb.ScriptFlush(context.WithoutCancel(t.Context())).Err())
	}

	before := payment("tok_ok")
	first.send(before).expect(t, created)
	forget()
	between := payment("tok_ok").withKey("key-2")
	first.send(between).expect(t, created)
	during := payment("tok_slow:300ms").withKey("key-3")
	answers := second.begin(during)
	forget()
	(<-answers).expect(t, created)

	for _, pay := range []request{before, between, during} {
		first.send(pay).expect(t, replayed)
		second.send(pay).expect(t, replayed)
	}
	f.expectEffects(chargeBy(first, before, 1), chargeBy(first, between, 1), chargeBy(second, during, 1))
	for _, process := range []*instance{first, second} {
		if process.printed("store_error") || process.printed("settle_deferred") {
			t.Error("the process logged the missing scripts as a failure")
		}
	}
}
