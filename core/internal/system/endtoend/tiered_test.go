package endtoend

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// flush empties the Redis.
func (f *fixture) flush() {
	f.t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: f.redis.Addr()})
	defer rdb.Close()
	testkit.Must(f.t, rdb.FlushAll(f.t.Context()).Err())
}

// Cases 17 and 18: PostgreSQL keeps the records that Redis loses.
func TestTieredWithoutItsRedis(t *testing.T) {
	t.Parallel()
	f := newTieredFixture(t, 30*time.Second, postgrestest.Shared(t))
	first, second := f.startTwo()
	pay, move := payment("tok_ok"), transfer("key-1")
	charge, moved := first.send(pay).expect(t, created), second.send(move).expect(t, created)
	expectCopies := func() {
		t.Helper()
		for _, process := range []*instance{first, second} {
			process.send(pay).expectCopyOf(t, charge)
			process.send(move).expectCopyOf(t, moved)
		}
	}

	f.flush()
	expectCopies()

	claimed := payment("tok_slow:5s").withKey("claimed")
	answers := first.begin(claimed)
	f.flush() // Redis loses a claim, as in a failover
	second.send(claimed).expect(t, inProgress)
	original := (<-answers).expect(t, created)
	second.send(claimed).expectCopyOf(t, original)

	f.redis.Kill()
	expectCopies()
	alone := payment("tok_ok").withKey("alone")
	original = second.send(alone).expect(t, created)
	first.send(alone).expectCopyOf(t, original)

	f.redis.Restart()
	expectCopies()
	first.send(alone).expectCopyOf(t, original)
	f.expectEffects(chargeBy(first, pay, 1), chargeBy(first, claimed, 1), chargeBy(second, alone, 1))
	f.expectTransfers(move.key)
}

// Redis still replays its records, and no others.
func TestTieredWithoutItsPostgres(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Durable()...)
	f := newTieredFixture(t, 30*time.Second, server.DSN())
	first, second := f.startTwo()
	pay, move := payment("tok_ok"), transfer("key-1")
	charge, moved := first.send(pay).expect(t, created), second.send(move).expect(t, created)

	server.Kill()
	newPay, newMove := payment("tok_ok").withKey("key-2"), transfer("key-2")
	for _, process := range []*instance{first, second} {
		process.send(pay).expectCopyOf(t, charge)
		process.send(move).expectCopyOf(t, moved)
		process.send(newPay).expect(t, unavailable)
		process.send(newMove).expect(t, unavailable)
	}
	testkit.Equal(t, first.attempts()+second.attempts(), 2, "handlers that ran")

	server.Restart()
	charge = first.retryThrough(newPay).expect(t, created)
	moved = second.retryThrough(newMove).expect(t, created)
	second.send(newPay).expectCopyOf(t, charge)
	first.send(newMove).expectCopyOf(t, moved)
	f.expectEffects(chargeBy(first, pay, 1), chargeBy(first, newPay, 1))
	f.expectTransfers(move.key, newMove.key)
}

// Cases 3 and 17: Redis loses the claim of a dead process, and the lease still counts.
func TestTieredLosesTheClaimOfADeadProcess(t *testing.T) {
	t.Parallel()
	f := newTieredFixture(t, 3*time.Second, postgrestest.Shared(t))
	first, second := f.startTwo()
	pay := payment("tok_slow:1s")

	sent := time.Now()
	answers := first.begin(pay)
	first.Kill()
	f.flush()
	if answer := <-answers; answer.err == nil {
		t.Fatalf("got %v from a killed process", answer)
	}
	tookOver := second.beginAfter(pay)
	if blocked := time.Since(sent); blocked < f.lockTTL {
		t.Errorf("the key was taken over after %v, want the lease of %v respected", blocked, f.lockTTL)
	}
	original := (<-tookOver).expect(t, created)
	second.send(pay).expectCopyOf(t, original)
	f.expectEffects(chargeBy(second, pay, 2))
}
